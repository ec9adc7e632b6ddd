"""Which step read, wrote or passed over an offset, as far as the index goes."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.model import OutputSlice, Reset, SkippedRange, StepBoundary
from kcontrol.core.step.resetting import going_back
from kcontrol.views.step_index import OffsetPlace, StepIndex, place_of, skips
from tests.unit.core.made import boundary

NO_DIGEST = "0" * 32
PASSED = SkippedRange("in", "input", "T1", 0, 8, 12, "me", 5, "r")
SECOND = replace(boundary(2, (12, 1), (15, 1)), skipped_ranges=(PASSED,))
LOG = [boundary(1, (5, 0), (8, 1)), SECOND, boundary(3, (15, 1), (15, 4))]


def index(log: list[StepBoundary]) -> StepIndex:
    found = StepIndex()
    for offset, each in enumerate(log):
        found.add(each, 10 * offset)
    return found


def test_every_offset_is_in_one_step_or_in_one_skip() -> None:
    found = index(LOG)
    assert [found.reader_of("in", 0, offset) for offset in (4, 5, 7, 8, 11, 12, 14, 15)] == [
        *(None, 1, 1),
        *(None, None),
        *(2, 2, None),
    ]
    assert [found.skipper_of("in", 0, offset) for offset in (7, 8, 11, 12)] == [None, 2, 2, None]
    assert found.skipper_of("in", 1, 0) is None
    assert found.step_of_skip("r") == 2
    assert found.step_of_skip("s") is None


def test_what_is_dropped_is_forgotten() -> None:
    found = index(LOG)
    found.forget_before(3)
    assert (found.reader_of("in", 0, 5), found.skipper_of("in", 0, 8), found.step_of_skip("r")) == (
        None,
        None,
        None,
    )
    assert found.reader_of("in", 1, 2) == 3
    assert (found.offset_of(2), found.offset_of(3)) == (None, 20)


def test_a_boundary_alone_tells_on_which_side_of_it_an_offset_is() -> None:
    assert [place_of(SECOND, "in", 0, offset) for offset in (7, 8, 14, 15)] == [
        *(OffsetPlace.EARLIER, OffsetPlace.HERE),
        *(OffsetPlace.HERE, OffsetPlace.LATER),
    ]
    assert [skips(SECOND, "in", 0, offset) for offset in (7, 8, 11, 12)] == [False, True, True, False]
    assert place_of(SECOND, "in", 7, 0) is OffsetPlace.LATER, "the partition was added later"


def test_outputs_have_their_writers() -> None:
    wrote = replace(boundary(1), outputs=(OutputSlice("out", "output", 1, 3, 5, 2, NO_DIGEST),))
    found = index([wrote])
    assert [found.writer_of("output", 1, offset) for offset in (2, 3, 4, 5)] == [None, 1, 1, None]


def test_what_void_steps_read_others_read_again_and_what_they_wrote_is_there() -> None:
    wrote = replace(LOG[2], outputs=(OutputSlice("out", "output", 1, 3, 5, 2, NO_DIGEST),))
    made = going_back(wrote, LOG[0], Reset(1, "", "me", "r", ()), (1, 1), 0, 9_000)
    again = replace(boundary(5, (8, 1), (13, 2)), now_ms=10_000)
    found = index([*LOG[:2], wrote, made, again])
    assert [found.reader_of("in", 0, offset) for offset in (7, 8, 12, 14)] == [1, 5, 5, None]
    assert (found.skipper_of("in", 0, 8), found.step_of_skip("r")) == (None, None)
    assert found.writer_of("output", 1, 4) == 3
    assert [found.offset_of(step) for step in (3, 4, 5)] == [20, 30, 40]


def _reset(step: int, to_step: int) -> StepBoundary:
    made = replace(boundary(step), reset=Reset(to_step, f"why {step}", "me", "r", ()))
    return replace(made, committed_ms=9_000 + step)


def _since(found: StepIndex, last: int) -> list[int | None]:
    """By step, from the first."""
    voids = [found.void_since(step) for step in range(1, last + 1)]
    return [None if void is None else void.step for void in voids]


def test_void_steps_name_the_reset_for_as_long_as_both_are_in_the_log() -> None:
    found = index([boundary(1), boundary(2), boundary(3), _reset(4, 2), boundary(5)])
    assert _since(found, 5) == [None, None, 4, None, None]
    void = found.void_since(3)
    assert void is not None
    assert void.model_dump() == {"step": 4, "to_step": 2, "by": "me", "why": "why 4", "at_ms": 9_004}
    found.add(_reset(6, 1), 60)
    assert _since(found, 6) == [None, 6, 6, 6, 6, None]
    found.add(boundary(6), 70)
    assert _since(found, 6) == [None, None, 4, None, None, None], (
        "another step 6 has taken the place of that one"
    )
    found.forget_before(4)
    assert _since(found, 6) == [None, None, 4, None, None, None]
    found.forget_before(5)
    assert _since(found, 6) == [None] * 6
