"""Outputs with partitioner='shard' when the layout is changed: whoever owns a shard owns the partition of its rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from kcontrol.core.model import Assignment, OutputSpec, PipelineSpec
from kcontrol.core.step.layout_change import (
    LayoutChange,
    assigned,
    changed,
    refused_change,
    refused_live,
    refused_shards,
)
from tests.unit.core.test_layout_change import FOUR


def _placed(nodes: int, shards: int, *partitions: int) -> PipelineSpec:
    """Several nodes with four partitions of input, and outputs of so many partitions, all by shard."""
    outputs = tuple(
        replace(FOUR.outputs[0], name=f"out{each}", partitions=count, by_shard=True)
        for each, count in enumerate(partitions)
    )
    layout = replace(FOUR.layout, shuffle_partitions=shards)
    wide = tuple(
        replace(each, start_offsets=(0,) * 12, node_of=tuple(p % nodes for p in range(12)))
        for each in FOUR.inputs
    )
    return replace(FOUR, nodes=nodes, inputs=wide, outputs=outputs, layout=layout)


def _agree(change: LayoutChange, spec: PipelineSpec) -> bool:
    written = {each.name: each.nodes for each in change.outputs}
    outputs: list[OutputSpec] = list(spec.outputs)
    return all(
        written[each.name][shard % each.partitions] == owner
        for each, (shard, owner) in product(outputs, enumerate(change.owners))
    )


def _after(spec: PipelineSpec, change: LayoutChange) -> PipelineSpec:
    record = Assignment(
        *("p", spec.assignment + 1, 1, change.nodes, change.owners, change.inputs, change.outputs),
        *(len(change.moves), 0, "r", 1),
    )
    return assigned(replace(spec, nodes=change.nodes), record)


@pytest.mark.parametrize(
    ("shards", "partitions", "way"),
    [
        (12, (12,), (2, 3, 4, 6, 2)),
        (24, (12,), (2, 4, 3, 6)),
        (24, (12, 24), (2, 6, 4, 3)),
        (24, (8, 12), (2, 4, 2)),
        (8, (4,), (4, 2, 4)),
    ],
)
def test_each_change_leaves_shards_with_who_writes_their_partitions(
    shards: int, partitions: tuple[int, ...], way: tuple[int, ...]
) -> None:
    spec = _placed(way[0], shards, *partitions)
    for nodes in way[1:]:
        assert refused_change(spec, spec, nodes) == ""
        change = changed(spec, nodes)
        assert _agree(change, spec)
        counts = [change.owners.count(node) for node in range(nodes)]
        assert set(counts) == {shards // nodes}
        spec = _after(spec, change)


def test_the_number_that_is_left_out_is_taken_with_shards_and_partitions() -> None:
    spec = _placed(4, 8, 4)
    change = changed(spec, 2)
    three = _placed(3, 12, 12)
    left = changed(three, 2, without=0)
    assert _agree(change, spec)
    assert _agree(left, three)
    assert left.renumbered == (2, 0)


def test_shards_that_are_cut_stay_with_their_partitions() -> None:
    spec = _placed(2, 8, 4)
    assert refused_shards(spec, 16) == refused_shards(spec, 4) == ""
    for shards in (16, 4):
        change = changed(spec, 2, shards=shards)
        assert _agree(change, spec)
        assert change.moves == ()


@pytest.mark.parametrize(
    ("spec", "nodes", "why"),
    [
        (_placed(2, 8, 4), 3, "has partitioner='shard' and 4 partitions: that must be a multiple"),
        (_placed(2, 8, 2), 4, "has partitioner='shard' and 2 partitions: that must be a multiple"),
        (_placed(2, 8, 4), 1, "equal keys would be in other partitions than before"),
        (_placed(1, 8, 4), 2, "equal keys would be in other partitions than before"),
        (_placed(2, 24, 12, 4), 3, "output 'out1' has partitioner='shard' and 4 partitions"),
    ],
)
def test_what_would_part_a_shard_from_its_partition_is_refused(
    spec: PipelineSpec, nodes: int, why: str
) -> None:
    assert why in refused_change(spec, spec, nodes)


def test_fewer_shards_than_partitions_are_refused() -> None:
    assert "do not divide 2 shards" in refused_shards(_placed(2, 8, 4), 2)


def test_shards_of_one_class_are_given_away_together_or_not_at_all() -> None:
    spec = _placed(2, 8, 4)
    apart = (0, 1, 0, 1, 0, 1, 1, 0)
    assert "all shards with one remainder modulo 4 are one node's" in refused_live(spec, 2, 1, owners=apart)
    together = (1, 0, 0, 1) * 2
    assert refused_live(spec, 2, 1, owners=together) == ""
    assert _agree(changed(spec, 2, owners=together), spec)
