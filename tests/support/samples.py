"""Records with sensible contents, for tests that are not about their contents."""

from __future__ import annotations

from kcontrol.core.model import (
    EMPTY_DIGEST,
    Checkpoint,
    Desired,
    DesiredMode,
    Layout,
    OutputLayout,
    OutputSlice,
    Reason,
    SavedPart,
    StepBoundary,
    Token,
)


def desired(pipeline: str, request_id: str) -> Desired:
    return Desired(pipeline, DesiredMode.RUNNING, request_id)


def boundary(
    pipeline: str, step: int, producer: tuple[int, int] = (1, 0), outputs: tuple[OutputSlice, ...] = ()
) -> StepBoundary:
    """A step without input whose outputs are as given."""
    return StepBoundary(
        pipeline=pipeline,
        step=step,
        token=Token(7, 1, *producer, (3,)),
        now_ms=1_700_000_000_000 + step,
        reason=Reason.RECORDS,
        fingerprint="f",
        nodes=1,
        inputs=(),
        outputs=outputs,
        layout=Layout((), 1, (OutputLayout("out", 2, 1, "exact"),)),
        paused_inputs=(),
        opened_ms=1_700_000_000_000,
        committed_ms=1_700_000_000_001,
        skipped=(),
        watermark_moved=False,
    )


def checkpoint(pipeline: str, step: int) -> Checkpoint:
    """Of one node."""
    return Checkpoint(
        pipeline, step, 7, 0, "file:///c", (SavedPart(0, 3, f"file:///c/{step}", 2, 10),), 1, 2, "", 1, 0, 0
    )


def output_slice(topic: str, partition: int, from_: int, to: int, records: int) -> OutputSlice:
    return OutputSlice("out", topic, partition, from_, to, records, EMPTY_DIGEST)
