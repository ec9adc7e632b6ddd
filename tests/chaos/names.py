"""What pipeline, producer and oracle must agree on."""

from __future__ import annotations

PIPELINE = "chaos"
INPUTS = {"orders": 4, "visits": 3}
"""By topic: partitions. Inputs and outputs are named as their topics."""
OUTPUTS = {"totals": 3, "large": 2}
KEYED_OUTPUT = "totals"
LARGE_AMOUNT = 50
MAX_RECORDS = 1_000
"""Of a step. Small, so that a step is under way at most instants and a backlog takes several."""
