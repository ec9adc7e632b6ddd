"""The pipelines that are simulated: small, so that a schedule is mostly faults and not records."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from kcontrol.core.model import (
    BadRecords,
    CheckpointSpec,
    InputSpec,
    LayoutSpec,
    LimitsSpec,
    OutputSpec,
    PipelineSpec,
    StepPolicySpec,
)

PIPELINE = "sim"
LIMITS = LimitsSpec(
    max_attempts=1_000_000,
    max_lost=1_000_000,
    backoff_ms=10,
    max_backoff_ms=40,
    heartbeat_timeout_ms=10_000,
    open_timeout_ms=20_000,
    step_timeout_ms=15_000,
    replay_timeout_ms=20_000,
    transaction_timeout_ms=20_000,
    pin_timeout_ms=3_000,
    save_timeout_ms=30_000,
    max_forgotten=3,
)


@cache
def simulated_spec(nodes: int, clock_ms: int, impatient: bool) -> PipelineSpec:
    """One input and one output of two partitions each, dealt out over the nodes. An impatient one halts after few failures."""
    node_of = tuple(partition % nodes for partition in range(2))
    return PipelineSpec(
        pipeline=PIPELINE,
        fingerprint="f1",
        compatible_with=(),
        nodes=nodes,
        queries=("q",),
        stateful=True,
        inputs=(InputSpec("in", "input", "T1", (0, 0), node_of, "raw", BadRecords.HALT, "", "k"),),
        outputs=(OutputSpec("out", "output", "T2", 2, "k", "raw", "exact"),),
        policy=StepPolicySpec(min_records=1, max_delay_ms=0, max_records=16, clock_ms=clock_ms),
        layout=LayoutSpec(max_tasks=2, records_per_task=6, shuffle_partitions=1),
        limits=replace(LIMITS, max_attempts=2, max_lost=3) if impatient else LIMITS,
        checkpoint=CheckpointSpec("", 60_000, 2, -1),
    )
