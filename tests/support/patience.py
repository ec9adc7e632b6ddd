"""How long tests wait for what comes at once on an idle machine. It guards against a hang alone: three runs of tests
share two cores, and Spark and brokers start beside them."""

HANG_S = 120.0
HANG_MS = round(HANG_S * 1_000)
