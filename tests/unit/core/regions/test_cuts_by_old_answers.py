"""`kcontrol cut` where a broker that is behind has answered: none is found that is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.apps.cuts import refuse_old
from kcontrol.core.model import EMPTY_DIGEST, InputSlice, OutputSlice, PipelinePhase, Status, StepBoundary
from kcontrol.core.regions import written_up_to
from kcontrol.core.regions.graph import RegionGraph
from kcontrol.core.regions.newest import newest_cut, places_of
from kcontrol.errors import RetriableError
from tests.unit.core.made import boundary

MADE = "made"
CHAIN = RegionGraph(
    {"enrich": frozenset({"raw"}), "totals": frozenset({MADE})},
    {"enrich": frozenset({MADE}), "totals": frozenset({"out"})},
)
BEHIND, AS_IT_IS = 0, 8


def wrote(step: int, *slices: tuple[int, int, int]) -> StepBoundary:
    outputs = tuple(
        OutputSlice("made", MADE, partition, begin, end, end - begin, EMPTY_DIGEST)
        for partition, begin, end in slices
    )
    return replace(boundary(step), outputs=outputs)


def read(step: int, *positions: int) -> StepBoundary:
    inputs = tuple(
        InputSlice("made", MADE, "T1", partition, 0, to, to, EMPTY_DIGEST)
        for partition, to in enumerate(positions)
    )
    return replace(boundary(step), inputs=inputs)


WRITER = [wrote(1, (0, 0, 3), (1, 0, 5)), wrote(2, (0, 4, 6)), wrote(3, (0, 7, 9))]
"""Behind the records of each step lies its marker, in both partitions."""


@pytest.mark.parametrize("asked", [BEHIND, AS_IT_IS])
@pytest.mark.parametrize(("position", "found"), [(0, False), (8, True)])
def test_what_older_steps_have_written_is_not_forgotten(asked: int, position: int, found: bool) -> None:
    """Of partition 1, which the steps that are looked at did not write to, a reader has read nothing. A leader that was deposed
    before says that there is nothing."""
    ends = {(MADE, 0): 10, (MADE, 1): asked}
    places = {
        "enrich": places_of(WRITER[1:], ends, written_up_to(WRITER[:1])),
        "totals": places_of([read(7, 10, position)], {}),
    }
    cut = newest_cut(CHAIN, places)
    assert (cut is not None) is (found and asked == AS_IT_IS)


def test_markers_and_aborted_records_behind_a_sparse_partition_hide_no_cut() -> None:
    """Partition 1 was last written to by step 1, then an attempt was aborted; its reader has made no step because of that."""
    before = written_up_to(WRITER[:1])
    totals = places_of([read(6, 7, 6), read(7, 10, 6)], {})
    for end in (AS_IT_IS, AS_IT_IS + 2):
        ends = {(MADE, 0): 10, (MADE, 1): end}
        cut = newest_cut(CHAIN, {"enrich": places_of(WRITER[1:], ends, before), "totals": totals})
        assert cut is not None
        assert {name: one.cut.step for name, one in cut.items()} == {"enrich": 3, "totals": 7}
    # Of what lies between, nobody knows whether it counts.
    ends = {(MADE, 0): 10, (MADE, 1): 9}
    places = {
        "enrich": places_of(WRITER[1:], ends, before),
        "totals": places_of([read(7, 10, 8)], {}),
    }
    assert newest_cut(CHAIN, places) is None


def test_what_was_aborted_before_the_first_record_of_a_partition_hides_no_cut() -> None:
    """Step 3 writes to partition 1, in which step 1 has written, with aborted records between; its reader has not seen that."""
    steps = [*WRITER[:2], wrote(3, (0, 7, 9), (1, 12, 13))]
    ends = {(MADE, 0): 10, (MADE, 1): 14}
    places = {
        "enrich": places_of(steps[1:], ends, written_up_to(steps[:1])),
        "totals": places_of([read(6, 7, 6)], {}),
    }
    cut = newest_cut(CHAIN, places)
    assert cut is not None
    assert cut["enrich"].cut.step == 2


def test_a_log_that_ends_before_what_is_known_to_be_committed_is_refused() -> None:
    status = Status("enrich", 1, PipelinePhase.RUNNING, 4, "", (), 0, "", ())
    refuse_old(None, 0)
    refuse_old(status, 4)
    refuse_old(status, 5)
    with pytest.raises(
        RetriableError, match="step 4 is committed, and the log of steps was read to step 3 only"
    ):
        refuse_old(status, 3)
