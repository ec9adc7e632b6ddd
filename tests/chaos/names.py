"""What pipeline, producer and oracle must agree on."""

from __future__ import annotations

import os

PIPELINE = "chaos"
TWIN = "chaos-each"
"""Of `--stateless both`, the pipeline that is planned in each step."""
NODES = int(os.environ.get("CHAOS_NODES", "1"))
"""Of the pipeline. On several nodes equal keys must share a partition number everywhere, so the counts
must be equal. From the environment, so that the nodes' processes have the same pipeline; `--nodes` sets it
there."""
STATELESS = os.environ.get("CHAOS_STATELESS", "")
"""The pipeline keeps nothing from step to step and is planned `once`; or is the same and planned in `each` step; or there
are two of it, so that it is planned in `both` ways; '' if it is another one. From the environment, as `NODES`."""
KEPT = os.environ.get("CHAOS_KEPT", "")
"""The pipeline keeps state and is planned `once`; or is the same and planned in `each` step, or in `both` ways by turns, as
its nodes are started; '' if it is another one. From the environment, as `NODES`."""
EXCHANGE = os.environ.get("CHAOS_EXCHANGE") == "1"
"""The inputs are partitioned by nothing: rows meet by key across the nodes, within each step. From the environment, as
`NODES`."""


def _inputs() -> dict[str, int]:
    if EXCHANGE:
        return {"orders": max(4, NODES), "visits": 3}
    return {"orders": 4, "visits": 3} if NODES == 1 else {"orders": 6, "visits": 6}


def _outputs() -> dict[str, int]:
    if EXCHANGE:
        # Keyed rows are brought to whoever owns their partition: fewer than three nodes do.
        return {"totals": 2, "large": max(2, NODES), "closed": max(2, NODES)}
    return {"totals": 3, "large": 2} if NODES == 1 else {"totals": 6, "large": NODES}


INPUTS = _inputs()
"""By topic: partitions. Inputs and outputs are named as their topics."""
OUTPUTS = _outputs()
PREFIXES = {PIPELINE: ""} | ({TWIN: "each-"} if STATELESS == "both" else {})
"""The pipelines that run, beside each other and of the same inputs, with what the names of their output topics begin with."""
OUTPUT_TOPICS = {prefix + name: count for prefix in PREFIXES.values() for name, count in OUTPUTS.items()}
"""Of all of them."""
CHECKPOINTS_VARIABLE = "CHAOS_CHECKPOINTS"
"""Of the nodes' environment: where checkpoints go."""
CHECKPOINT_EVERY_VARIABLE = "CHAOS_CHECKPOINT_EVERY"
"""And how often they are made."""
KEYED_OUTPUT = "totals"
LARGE_AMOUNT = 50
MAX_RECORDS = 1_000
"""Of a step. Small, so that a step is under way at most instants and a backlog takes several."""
WINDOW_S, DELAY_S = 100, 20
"""Of the windows of `--exchange`, whose event time is the order's number, in seconds."""
