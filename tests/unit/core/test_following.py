"""The table "a target's last step against the log's next": each of its rows, and what is said of those that halt."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.log.resets import Resets, VoidSteps
from kcontrol.core.step.following import (
    Applied,
    LogFacts,
    StepVerdict,
    judge_log,
    judge_step,
    sentence,
    step_print,
)
from tests.support.samples import boundary, output_slice

BOUNDARY = boundary("orders", 7, outputs=(output_slice("t", 0, 10, 20, 9), output_slice("t", 1, 5, 8, 2)))
LOG = LogFacts("orders", "log-1", 5, 9)


def _applied(step: int, **changes: str) -> Applied:
    return replace(Applied("orders", "log-1", step, "print"), **changes)


@pytest.mark.parametrize(
    ("applied", "verdict"),
    [
        (_applied(9), StepVerdict.NEXT),
        (_applied(4), StepVerdict.NEXT),
        (_applied(3), StepVerdict.EXPIRED),
        (_applied(0), StepVerdict.EXPIRED),
        (_applied(10), StepVerdict.BEYOND),
        (_applied(7, log_id="log-2"), StepVerdict.FOREIGN),
        (_applied(7, pipeline="others"), StepVerdict.FOREIGN),
        (_applied(99, log_id="log-2"), StepVerdict.FOREIGN),
    ],
)
def test_a_log_goes_on_where_the_target_ends_or_does_not(applied: Applied, verdict: StepVerdict) -> None:
    assert judge_log(applied, LOG) is verdict


def test_an_empty_target_goes_with_an_empty_log_and_with_a_whole_one() -> None:
    assert judge_log(_applied(0), LogFacts("orders", "log-1", 0, 0)) is StepVerdict.NEXT
    assert judge_log(_applied(0), LogFacts("orders", "log-1", 1, 9)) is StepVerdict.NEXT


@pytest.mark.parametrize(
    ("held", "resets", "verdict"),
    [
        (2, (VoidSteps(2, 6),), StepVerdict.NEXT),
        (2, (VoidSteps(2, 4), VoidSteps(4, 6)), StepVerdict.NEXT),
        (2, (VoidSteps(2, 4),), StepVerdict.NEXT),
        (2, (VoidSteps(3, 6),), StepVerdict.EXPIRED),
        (1, (VoidSteps(2, 6),), StepVerdict.EXPIRED),
    ],
)
def test_void_steps_that_are_gone_are_not_missed(held: int, resets: Resets, verdict: StepVerdict) -> None:
    """The log begins with step 5."""
    assert judge_log(_applied(held), replace(LOG, resets=resets)) is verdict


def test_it_can_be_begun_with_the_oldest_step_or_with_the_first_behind_void_ones() -> None:
    assert LOG.oldest == 5
    for resets in ((VoidSteps(2, 6),), (VoidSteps(4, 6),)):
        assert replace(LOG, resets=resets).oldest == 7
    assert replace(LOG, resets=(VoidSteps(5, 7),)).oldest == 5


@pytest.mark.parametrize(
    ("step", "its_print", "verdict"),
    [
        (8, "other", StepVerdict.NEXT),
        (7, "print", StepVerdict.DUPLICATE),
        (7, "other", StepVerdict.DIFFERENT),
        (6, "other", StepVerdict.DUPLICATE),
        (9, "print", StepVerdict.GAP),
    ],
)
def test_a_step_is_the_next_or_there_or_beyond(step: int, its_print: str, verdict: StepVerdict) -> None:
    assert judge_step(_applied(7), step, its_print) is verdict


def test_a_print_that_was_not_kept_is_not_compared() -> None:
    assert judge_step(_applied(7, print=""), 7, "any") is StepVerdict.DUPLICATE


@pytest.mark.parametrize("verdict", [each for each in StepVerdict if each.halts])
def test_every_halt_says_where_and_what_to_do(verdict: StepVerdict) -> None:
    said = sentence(verdict, "table t", _applied(3), LOG, 7)
    assert said.startswith("table t ")
    assert "--resync" in said or "Start the delivery again" in said


def test_only_two_verdicts_go_on() -> None:
    assert [each for each in StepVerdict if not each.halts] == [StepVerdict.NEXT, StepVerdict.DUPLICATE]


def test_the_print_of_a_step_is_of_its_own_output_alone_and_of_all_of_that() -> None:
    first = BOUNDARY.outputs[0]
    own = step_print(BOUNDARY, first.output)
    assert own != step_print(BOUNDARY, "another")
    others = tuple(each for each in BOUNDARY.outputs if each.output == first.output)
    assert own == step_print(replace(BOUNDARY, outputs=others[::-1]), first.output)
    for change in (
        {"to": first.to + 1},
        {"records": first.records + 1},
        {"digest": "1" * 32},
        {"partition": 77},
    ):
        changed = replace(BOUNDARY, outputs=(replace(first, **change), *BOUNDARY.outputs[1:]))
        assert step_print(changed, first.output) != own, change
    assert step_print(replace(BOUNDARY, step=BOUNDARY.step + 1), first.output) != own


@pytest.mark.parametrize(
    ("held", "verdict"),
    [(7, StepVerdict.NEXT), (11, StepVerdict.NEXT), (6, StepVerdict.GAP), (12, StepVerdict.DUPLICATE)],
)
def test_between_a_step_and_the_one_that_it_follows_there_may_be_void_ones(
    held: int, verdict: StepVerdict
) -> None:
    """Step 12 follows 7: 8 to 10 are void, and 11 says so."""
    assert judge_step(_applied(held), 12, "print", follows=7) is verdict
