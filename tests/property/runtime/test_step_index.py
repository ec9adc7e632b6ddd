"""Steps by offset: what the index finds is what a look at every boundary finds, whatever was dropped."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kcontrol.core.model import OutputSlice, StepBoundary
from kcontrol.views.step_index import StepIndex
from tests.unit.core.made import boundary

MAX_OFFSET = 60


@st.composite
def boundaries(draw: st.DrawFn) -> list[StepBoundary]:
    """Steps that read on where the one before has ended, with gaps between what they write."""
    first = draw(st.integers(1, 5))
    next_from, written, found = (5, 0), 0, []
    for step in range(first, first + draw(st.integers(0, 12))):
        to = (next_from[0] + draw(st.integers(0, 3)), next_from[1] + draw(st.integers(0, 3)))
        begin = written + draw(st.integers(0, 2))
        written = begin + draw(st.integers(0, 3))
        out = OutputSlice("out", "output", 0, begin, written, written - begin, "0" * 32)
        found.append(replace(boundary(step, next_from, to), outputs=(out,)))
        next_from = to
    return found


@given(boundaries(), st.integers(0, 20))
def test_the_index_finds_what_the_boundaries_say(log: list[StepBoundary], dropped: int) -> None:
    index = StepIndex()
    for at, one in enumerate(log):
        index.add(one, 10 * at)
    index.forget_before(dropped)
    left = {one.step: (one, 10 * at) for at, one in enumerate(log) if one.step >= dropped}
    for step in range(25):
        assert index.offset_of(step) == (left[step][1] if step in left else None)
    for offset in range(MAX_OFFSET):
        for partition in (0, 1):
            readers = [
                s
                for s, (one, _) in left.items()
                if one.inputs[partition].from_ <= offset < one.inputs[partition].to
            ]
            assert [index.reader_of("in", partition, offset)] == (readers or [None])
        writers = [s for s, (one, _) in left.items() if one.outputs[0].from_ <= offset < one.outputs[0].to]
        assert [index.writer_of("output", 0, offset)] == (writers or [None])
    assert index.reader_of("else", 0, 1) is None
    assert index.writer_of("output", 1, 1) is None
