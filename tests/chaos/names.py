"""What pipeline, producer and oracle must agree on."""

from __future__ import annotations

import os

PIPELINE = "chaos"
NODES = int(os.environ.get("CHAOS_NODES", "1"))
"""Of the pipeline. On several nodes equal keys must share a partition number everywhere, so the counts
must be equal. From the environment, so that the nodes' processes have the same pipeline; `--nodes` sets it
there."""
STATELESS = os.environ.get("CHAOS_STATELESS") == "1"
"""The pipeline keeps nothing from step to step, so that it is planned once. From the environment, as `NODES`."""
INPUTS = {"orders": 4, "visits": 3} if NODES == 1 else {"orders": 6, "visits": 6}
"""By topic: partitions. Inputs and outputs are named as their topics."""
OUTPUTS = {"totals": 3, "large": 2} if NODES == 1 else {"totals": 6, "large": NODES}
CHECKPOINTS_VARIABLE = "CHAOS_CHECKPOINTS"
"""Of the nodes' environment: where checkpoints go."""
KEYED_OUTPUT = "totals"
LARGE_AMOUNT = 50
MAX_RECORDS = 1_000
"""Of a step. Small, so that a step is under way at most instants and a backlog takes several."""
