"""The made-up log of the start-up bench is one that the core takes, from its beginning and from its
checkpoint."""

from __future__ import annotations

from functools import reduce

from bench.startup import boundary, checkpoint, long_spec
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import LoggedStep, StepRecord


def test_the_log_folds_and_the_checkpoint_says_where_to_begin() -> None:
    records: list[StepRecord] = [boundary(step) for step in range(1, 11)]
    saved = [checkpoint(4, 3, 3), checkpoint(8, 7, 3)]
    log = [LoggedStep(offset, record) for offset, record in enumerate([*records, *saved])]
    whole = reduce(evolve, log, StepsView("long"))
    assert (whole.first, whole.step, [one.step for one in whole.checkpoints]) == (1, 10, [4, 8])
    assert reduce(evolve, log[saved[1].begin_offset :], StepsView.begun_at("long", saved[1])) == whole
    assert {piece.input for piece in boundary(1).inputs} == {source.name for source in long_spec().inputs}
