"""Small pieces of work for tests of the engine's parts."""

from __future__ import annotations

from kcontrol.core.model import InputRange, Layout, OutputLayout, Reason, SourceSplit, StepWork, Token

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def work(
    step: int = 1, splits: tuple[SourceSplit, ...] = (), tasks: int = 2, partitions: int = 4
) -> StepWork:
    division = tuple(InputRange(s.input, s.input, TOPIC_ID, s.partition, s.from_, s.to) for s in splits)
    return StepWork(
        step=step,
        token=Token(1, 1, 1, 0, (1,)),
        transactional_id="kcontrol.p",
        now_ms=1_000,
        reason=Reason.RECORDS,
        division=division,
        layout=Layout(splits, 2, (OutputLayout("out", partitions, tasks, "exact"),)),
        writers=(tuple(range(partitions)),),
    )
