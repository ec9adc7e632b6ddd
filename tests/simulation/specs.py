"""The pipelines that are simulated: small, so that a schedule is mostly faults and not records."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from kcontrol.core.model import (
    BadRecords,
    CheckpointSpec,
    ExchangeSpec,
    InputSpec,
    LayoutSpec,
    LimitsSpec,
    OutputSpec,
    PipelineSpec,
    RebalanceSpec,
    ShardSize,
    StepPolicySpec,
    WatermarkPolicy,
    WatermarkSpec,
)

PIPELINE = "sim"
MOST_NODES = 3
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


CHECKPOINTS = (
    CheckpointSpec("", 0, 0, -1),
    CheckpointSpec("sim:", 200, 2, 4),
    CheckpointSpec("sim:", 100, 1, 0),
)
"""None; some; as often and with as little kept as can be."""


SHARDS = 4
EXCHANGES = (
    ExchangeSpec("x", "exchange.x", "T4", ("k",), "x.send", 0),
    ExchangeSpec("y", "exchange.y", "T5", (), "q", 1, "out"),
)
WATERMARKS = (
    (),
    (WatermarkSpec("q", (50, 0), WatermarkPolicy.MIN),),
    (WatermarkSpec("q", (50, 0), WatermarkPolicy.MAX),),
)
"""By the number of stages, less one."""

PATIENT = StepPolicySpec(min_records=5, max_delay_ms=150, max_records=16, clock_ms=0, gaps_delay_ms=1_000)
"""Waits for more than one record; where it is in force, some offsets hold none, and those at the very end are
passed over within the schedule."""


WEIGHTS = (50, 20, 10, 10)
"""Of the state of each shard, for ever: as they are dealt out first, the first of two nodes has more than it need have, and the
first of three too much."""
REBALANCE = RebalanceSpec(every_ms=100, when_percent=140, checkpoints=2, least_bytes=5, timeout_ms=8_000)


def shard_sizes(spec: PipelineSpec) -> tuple[ShardSize, ...]:
    """What a node says of shards that it has saved, its own and others."""
    return tuple(ShardSize(shard, WEIGHTS[shard % SHARDS]) for shard in range(spec.layout.shuffle_partitions))


def holds_record(spec: PipelineSpec, partition: int, offset: int) -> bool:
    """Whether an offset of an input is that of a record: of two in three, where anybody counts them."""
    return spec.policy.min_records == 1 or (offset + partition) % 3 != 1


@cache
def simulated_spec(
    nodes: int,
    clock_ms: int,
    impatient: bool,
    checkpoints: int,
    stateful: bool = True,
    patient: bool = False,
    stages: int = 1,
    wide: bool = False,
) -> PipelineSpec:
    """Two inputs and one output, dealt out over the nodes. An impatient one halts after few failures.

    checkpoints: index of CHECKPOINTS. stateful: it keeps keyed state, so that on several nodes its partitions
    must stay as they are; one that does not may change the number of its nodes. One with a clock is. patient:
    its policy is PATIENT. stages: 2 with rows that are exchanged by key before the query that writes, 3 if its output is
    delivered, too; on one node there is nothing to exchange. wide: as many partitions as there can be nodes.
    """
    assert stateful or not clock_ms
    partitions = max(2, nodes) if stateful and not wide else MOST_NODES
    sizes = range(1, MOST_NODES + 1)
    node_of = tuple(partition % nodes for partition in range(partitions))
    stages = stages if nodes > 1 else 1
    return PipelineSpec(
        pipeline=PIPELINE,
        fingerprint="f1" if stateful else f"f-{nodes}",
        compatible_with=() if stateful else tuple(f"f-{other}" for other in sizes if other != nodes),
        nodes=nodes,
        queries=("q",) if stages == 1 else ("x.send", "q"),
        stateful=stateful,
        inputs=tuple(
            InputSpec(
                name,
                topic,
                topic_id,
                (0,) * partitions,
                node_of,
                "raw",
                BadRecords.HALT,
                "",
                "k" if stateful and stages == 1 else "",
            )
            for name, topic, topic_id in (("in", "input", "T1"), ("side", "other", "T3"))
        ),
        outputs=(OutputSpec("out", "output", "T2", partitions, "k", "raw", "exact"),),
        policy=PATIENT
        if patient
        else StepPolicySpec(min_records=1, max_delay_ms=0, max_records=16, clock_ms=clock_ms),
        layout=LayoutSpec(max_tasks=2, records_per_task=6, shuffle_partitions=1 if stages == 1 else SHARDS),
        limits=replace(LIMITS, max_attempts=2, max_lost=3) if impatient else LIMITS,
        checkpoint=CHECKPOINTS[checkpoints],
        exchanges=EXCHANGES[: stages - 1],
        stages=() if stages == 1 else (0, 1),
        watermarks=WATERMARKS[stages - 1] if stateful else (),
    )
