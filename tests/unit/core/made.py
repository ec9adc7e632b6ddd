"""A small pipeline and its records, for tests that care about one of their fields."""

from __future__ import annotations

from kcontrol.core.model import (
    BadRecords,
    Checkpoint,
    CheckpointSpec,
    InputSlice,
    InputSpec,
    Layout,
    LayoutSpec,
    LimitsSpec,
    OutputSpec,
    PipelineSpec,
    Reason,
    SavedPart,
    StepBoundary,
    StepPolicySpec,
    Token,
)

LIMITS = LimitsSpec(
    max_attempts=3,
    max_lost=4,
    backoff_ms=100,
    max_backoff_ms=1_000,
    heartbeat_timeout_ms=8_000,
    open_timeout_ms=20_000,
    step_timeout_ms=30_000,
    replay_timeout_ms=25_000,
    transaction_timeout_ms=60_000,
    pin_timeout_ms=5_000,
    save_timeout_ms=90_000,
    max_forgotten=3,
)
SPEC = PipelineSpec(
    pipeline="p",
    fingerprint="f1",
    compatible_with=(),
    nodes=1,
    queries=("q",),
    stateful=True,
    inputs=(InputSpec("in", "input", "T1", (5, 0), (0, 0), "raw", BadRecords.HALT, "", ""),),
    outputs=(OutputSpec("out", "output", "T2", 2, "k", "raw", "exact"),),
    policy=StepPolicySpec(min_records=1, max_delay_ms=100, max_records=10, clock_ms=0),
    layout=LayoutSpec(max_tasks=2, records_per_task=100, shuffle_partitions=1),
    limits=LIMITS,
    checkpoint=CheckpointSpec("", 60_000, 2, -1),
)
TOKEN = Token(1, 1, 7, 3, (2,))


def boundary(
    step: int,
    from_: tuple[int, ...] = (5, 0),
    to: tuple[int, ...] = (6, 1),
    token: Token = TOKEN,
    nodes: int = 1,
) -> StepBoundary:
    """Of a step that read what lies between those offsets, by partition; one record of each if not told
    otherwise."""
    return StepBoundary(
        pipeline="p",
        step=step,
        token=token,
        now_ms=1_000 + step,
        reason=Reason.RECORDS,
        fingerprint="f1",
        nodes=nodes,
        inputs=tuple(
            InputSlice("in", "input", "T1", partition, begin, end, end - begin, "0" * 32)
            for partition, (begin, end) in enumerate(zip(from_, to, strict=True))
        ),
        outputs=(),
        layout=Layout((), 1, ()),
        paused_inputs=(),
        opened_ms=900 + step,
        committed_ms=1_000 + step,
        skipped=(),
        watermark_moved=False,
    )


def checkpoint(step: int, nodes: int) -> Checkpoint:
    """Of all nodes, made a while after the step."""
    return Checkpoint(
        pipeline="p",
        step=step,
        claim_epoch=1,
        boundary_offset=step,
        location="file:///c",
        parts=tuple(SavedPart(number, 2 + number, f"m{number}", 1, 10) for number in range(nodes)),
        begun_ms=3_000 + step,
        now_ms=4_000 + step,
        request_id="",
        first_step=1,
        resized_step=0,
        begin_offset=step,
    )
