"""What a step holds and how it is cut: nothing is lost or doubled, limits hold, and the
same input gives the same answer."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor

from hypothesis import example, given
from hypothesis import strategies as st

from kcontrol.core.model import (
    SHARED_OUT,
    BadRecords,
    InputRange,
    InputSpec,
    LayoutSpec,
    OutputSpec,
    PipelineSpec,
)
from kcontrol.core.step.division import clipped, offsets_in
from kcontrol.core.step.layout import layout_of, writers_of
from kcontrol.core.step.offsets import dealt_to
from tests.unit.core.made import SPEC

ranges = st.lists(st.integers(0, 200), min_size=1, max_size=8).map(
    lambda sizes: tuple(InputRange("in", "t", "id", p, 10 * p, 10 * p + size) for p, size in enumerate(sizes))
)


def size(part: InputRange) -> int:
    return part.to - part.from_


@given(ranges, st.integers(1, 500))
def test_a_division_holds_as_much_as_it_may(received: tuple[InputRange, ...], most: int) -> None:
    division = clipped(received, most)
    assert offsets_in(division) == min(most, offsets_in(received))
    for whole, part in zip(received, division, strict=True):
        assert replace(part, to=whole.to) == whole
        assert 0 <= size(part) <= size(whole)


@given(ranges, st.integers(1, 500), st.integers(0, 1 << 40))
def test_each_partition_gives_its_share_of_what_waits(
    received: tuple[InputRange, ...], most: int, moved: int
) -> None:
    """Exactly in proportion, rounded down or up: so event time stays together in partitions
    that hold the same span of it."""
    received = tuple(replace(part, from_=part.from_ + moved, to=part.to + moved) for part in received)
    division = clipped(received, most)
    assert division == clipped(received, most)
    waiting = offsets_in(received)
    for whole, part in zip(received, division, strict=True):
        share = Fraction(size(whole) * min(most, waiting), waiting) if waiting else Fraction(0)
        assert floor(share) <= size(part) <= ceil(share)


@example(
    [26_987, 43_834, 37, 68_374], 1_839, 900_194_392_340
)  # 2.2 offsets of its own: the most in 28,000 random backlogs
@given(
    st.lists(st.integers(1, 100_000), min_size=2, max_size=6), st.integers(10, 5_000), st.integers(0, 1 << 40)
)
def test_a_backlog_is_read_at_the_same_pace_in_every_partition(
    sizes: list[int], most: int, moved: int
) -> None:
    """After each step every partition has given the same part of its backlog, within four offsets of its own.

    A step rounds each share by less than one offset; what steps round does not add up over the fifty of a
    backlog.
    """
    backlog = offsets_in(tuple(InputRange("in", "t", "id", p, moved, moved + n) for p, n in enumerate(sizes)))
    most = max(most, backlog // 50)
    left = tuple(InputRange("in", "t", "id", p, moved, moved + n) for p, n in enumerate(sizes))
    while offsets_in(left):
        division = clipped(left, most)
        left = tuple(replace(whole, from_=part.to) for whole, part in zip(left, division, strict=True))
        done = Fraction(backlog - offsets_in(left), backlog)
        for given_, part in zip(sizes, left, strict=True):
            assert abs(part.from_ - moved - done * given_) <= 4


@given(st.integers(1, 40), st.integers(1, 2_000), st.integers(0, 7), st.integers(0, 1 << 40))
def test_no_partition_starves_beside_one_that_is_always_full(
    few: int, full: int, place: int, moved: int
) -> None:
    """However little waits in one and however much comes to the others, it moves on within about as many
    steps as its share of a record is small: that is, it waits as long as what came before it."""
    sizes = [few, *[full + few] * 7]
    sizes[0], sizes[place] = sizes[place], sizes[0]
    begins = [moved] * len(sizes)
    most = 10
    steps = 3 * ceil(Fraction(sum(sizes), few * most)) + 1
    for _ in range(steps):
        division = clipped(
            tuple(InputRange("in", "t", "id", p, begins[p], begins[p] + sizes[p]) for p in range(len(sizes))),
            most,
        )
        begins = [part.to for part in division]
        if begins[place] > moved:
            return
    raise AssertionError(
        f"{few} of {sum(sizes)} waiting records, {most} a step: nothing was read in {steps} steps"
    )


specs = st.builds(
    lambda input_partitions, output_partitions, nodes, tasks, per_task, pinned: spec_of(
        input_partitions, output_partitions, nodes, LayoutSpec(tasks, per_task, 3), pinned
    ),
    st.integers(1, 8),
    st.lists(st.integers(1, 8), min_size=1, max_size=3),
    st.integers(1, 3),
    st.integers(1, 6),
    st.integers(1, 60),
    st.lists(st.integers(SHARED_OUT, 2), min_size=4, max_size=4),
)


def spec_of(
    input_partitions: int, output_partitions: list[int], nodes: int, limits: LayoutSpec, pinned: list[int]
) -> PipelineSpec:
    """pinned: whose the input and the outputs are, as far as there are such nodes."""
    of_input, *of_outputs = (node if node < nodes else SHARED_OUT for node in pinned)
    node_of = tuple(dealt_to(partition, nodes, of_input) for partition in range(input_partitions))
    item = InputSpec(
        *("in", "t", "id", (0,) * input_partitions, node_of, "raw", BadRecords.HALT, "", ""), node=of_input
    )
    outputs = tuple(
        OutputSpec(f"o{i}", f"t{i}", "", count, "", "raw", "exact", node)
        for i, (count, node) in enumerate(zip(output_partitions, of_outputs, strict=False))
    )
    return replace(SPEC, nodes=nodes, inputs=(item,), outputs=outputs, layout=limits)


@given(specs, st.lists(st.integers(0, 200), min_size=8, max_size=8))
def test_splits_are_the_division(spec: PipelineSpec, sizes: list[int]) -> None:
    count = len(spec.inputs[0].node_of)
    division = tuple(InputRange("in", "t", "id", p, 7, 7 + sizes[p]) for p in range(count))
    layout = layout_of(spec, division)
    assert layout == layout_of(spec, division)
    read = sorted(
        (split.partition, offset) for split in layout.splits for offset in range(split.from_, split.to)
    )
    assert read == [(part.partition, offset) for part in division for offset in range(part.from_, part.to)]
    for node in range(spec.nodes):
        own = [split for split in layout.splits if spec.inputs[0].node_of[split.partition] == node]
        records = sum(split.to - split.from_ for split in own)
        wanted = min(max(1, -(-records // spec.layout.records_per_task)), spec.layout.max_tasks)
        tasks = {split.task for split in own}
        assert tasks <= set(range(wanted))
        loads = [sum(split.to - split.from_ for split in own if split.task == task) for task in tasks]
        if loads and wanted > 1:
            assert max(loads) <= 2 * -(-records // min(wanted, len(tasks)))


@given(specs, st.lists(st.integers(0, 200), min_size=8, max_size=8))
def test_an_output_has_no_more_writers_than_partitions_or_tasks(spec: PipelineSpec, sizes: list[int]) -> None:
    division = tuple(InputRange("in", "t", "id", p, 0, sizes[p]) for p in range(len(spec.inputs[0].node_of)))
    layout = layout_of(spec, division)
    for output, item in zip(layout.outputs, spec.outputs, strict=True):
        assert (output.output, output.partitions, output.digest) == (item.name, item.partitions, item.digest)
        assert 1 <= output.tasks <= min(item.partitions, spec.layout.max_tasks)


@given(specs, st.lists(st.integers(0, 5), min_size=3, max_size=3))
def test_every_output_partition_has_exactly_one_writer_however_wide_the_topic_is_since(
    spec: PipelineSpec, added: list[int]
) -> None:
    layout = layout_of(spec, ())
    outputs = tuple(
        replace(each, partitions=each.partitions + more)
        for each, more in zip(spec.outputs, added, strict=False)
    )
    for index, output in enumerate(spec.outputs):
        for since in (spec, replace(spec, outputs=outputs)):
            writers = [
                partition
                for node in range(spec.nodes)
                for partition in writers_of(since, layout, node)[index]
            ]
            assert sorted(writers) == list(range(output.partitions))
            if output.node != SHARED_OUT:
                assert writers_of(since, layout, output.node)[index] == tuple(range(output.partitions))
