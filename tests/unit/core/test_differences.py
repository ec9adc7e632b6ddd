"""What is compared when a step is run again: what follows from input and code, and each node its own part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.model import (
    ExchangeLayout,
    ExchangeSlice,
    ExchangeTaken,
    InputSlice,
    LateRows,
    Layout,
    OutputLayout,
    OutputSlice,
    Skipped,
    StepResult,
    Watermark,
)
from kcontrol.core.node.replay import work_of
from kcontrol.core.step.differences import Difference, NodePart, differences, part_of
from kcontrol.core.step.exchange import content
from tests.unit.core.made import SPEC, boundary
from tests.unit.core.staged import STAGED, digest, run, sent

ONE, TWO = f"{1:032x}", f"{2:032x}"
MADE = replace(
    boundary(3),
    outputs=(OutputSlice("out", "output", 0, 10, 12, 2, ONE), OutputSlice("out", "output", 1, 4, 5, 1, TWO)),
    layout=Layout((), 1, (OutputLayout("out", 2, 1, "exact"),)),
    skipped=(Skipped("in", 2),),
    watermark_moved=True,
    late_rows=(LateRows("q", 0, 3), LateRows("q", 1, 9)),
)
FOUND = StepResult(MADE.inputs, MADE.outputs, (Skipped("in", 2), Skipped("other", 0)), True)
FOUND = replace(FOUND, late_rows=(LateRows("q", 0, 3), LateRows("not counted then", 0, 1)))
WORK = work_of(MADE, SPEC, 0)
PART = part_of(MADE, SPEC, 0)


def changed(pieces: tuple[Any, ...], index: int, **fields: Any) -> tuple[Any, ...]:
    return (*pieces[:index], replace(pieces[index], **fields), *pieces[index + 1 :])


def test_the_same_again_differs_in_nothing_wherever_its_output_would_have_come_to_lie() -> None:
    elsewhere = replace(FOUND, outputs=tuple(replace(piece, from_=0, to=0) for piece in FOUND.outputs))
    assert differences(MADE, PART, WORK, FOUND) == differences(MADE, PART, WORK, elsewhere) == []


@pytest.mark.parametrize(
    ("found", "what", "name", "partition"),
    [
        (replace(FOUND, inputs=changed(FOUND.inputs, 0, records=7)), "input", "in", 0),
        (replace(FOUND, inputs=changed(FOUND.inputs, 1, digest=ONE)), "input", "in", 1),
        (replace(FOUND, inputs=changed(FOUND.inputs, 1, to=9)), "range", "in", 1),
        (replace(FOUND, inputs=changed(FOUND.inputs, 1, topic_id="T9")), "range", "in", 1),
        (replace(FOUND, inputs=FOUND.inputs[:1]), "input", "in", 1),
        (replace(FOUND, outputs=changed(FOUND.outputs, 1, digest=ONE)), "output", "out", 1),
        (replace(FOUND, outputs=changed(FOUND.outputs, 0, records=1)), "output", "out", 0),
        (replace(FOUND, outputs=FOUND.outputs[1:]), "output", "out", 0),
        (
            replace(FOUND, outputs=(*FOUND.outputs, replace(FOUND.outputs[0], output="more"))),
            "output",
            "more",
            0,
        ),
        (replace(FOUND, skipped=()), "bad records", "in", None),
        (replace(FOUND, skipped=(Skipped("in", 3),)), "bad records", "in", None),
        (replace(FOUND, skipped=(*FOUND.skipped, Skipped("other", 1))), "bad records", "other", None),
        (replace(FOUND, watermark_moved=False), "watermark", "", None),
        (replace(FOUND, late_rows=(LateRows("q", 0, 4),)), "late rows", "q", None),
    ],
)
def test_every_difference_is_found_and_says_where(
    found: StepResult, what: str, name: str, partition: int | None
) -> None:
    [difference] = differences(MADE, PART, WORK, found)
    assert (difference.step, difference.what, difference.name, difference.partition) == (
        3,
        what,
        name,
        partition,
    )
    assert str(difference).startswith(f"step 3: {what}")
    assert "the log has" in str(difference)


def test_a_step_that_was_run_at_another_time_or_cut_otherwise_is_another_step() -> None:
    [later] = differences(MADE, PART, replace(WORK, now_ms=WORK.now_ms + 1), FOUND)
    assert (later.what, later.of_input) == ("time", True)
    [cut] = differences(MADE, PART, replace(WORK, layout=Layout((), 2, WORK.layout.outputs)), FOUND)
    assert (cut.what, cut.of_input) == ("layout", True)


def test_what_came_of_other_input_is_not_spoken_of() -> None:
    other = StepResult(changed(FOUND.inputs, 0, digest=ONE), (), (), False)
    assert [each.what for each in differences(MADE, PART, WORK, other)] == ["input"]


def test_texts() -> None:
    moved = Difference(3, "watermark", "", None, True, False)
    assert (
        str(moved)
        == "step 3: watermark differs: the log has that it moved, this run has that it did not move"
    )
    bad = Difference(3, "bad records", "in", None, 2, 3)
    assert str(bad) == "step 3: bad records 'in' differs: the log has 2, this run has 3"
    out = Difference(3, "output", "out", 1, (2, ONE), (0, "0" * 32))
    assert str(out).startswith(
        f"step 3: output 'out' partition 1 differs: the log has 2 records with digest {ONE}, this run has 0"
    )


TWO_NODES = replace(SPEC, nodes=2, inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),))
OF_TWO = replace(MADE, nodes=2)


def test_each_node_is_held_to_its_own_part() -> None:
    parts = [part_of(OF_TWO, TWO_NODES, node) for node in range(2)]
    assert [part.inputs for part in parts] == [{("in", 0)}, {("in", 1)}]
    assert [part.outputs for part in parts] == [{"out": {0}}, {"out": {1}}]
    for node, part in enumerate(parts):
        own = StepResult((FOUND.inputs[node],), (FOUND.outputs[node],), (Skipped("in", node),), node == 1)
        assert differences(OF_TWO, part, WORK, own) == []
        less = replace(own, outputs=())
        assert [(each.what, each.partition) for each in differences(OF_TWO, part, WORK, less)] == [
            ("output", node)
        ]


def test_no_node_has_left_out_more_bad_records_than_all_or_moved_a_watermark_that_did_not_move() -> None:
    part = part_of(OF_TWO, TWO_NODES, 0)
    own = StepResult((FOUND.inputs[0],), (FOUND.outputs[0],), (Skipped("in", 3),), False)
    assert [each.what for each in differences(OF_TWO, part, WORK, own)] == ["bad records"]
    still = replace(OF_TWO, watermark_moved=False)
    moved = replace(own, skipped=(), watermark_moved=True)
    assert [each.what for each in differences(still, part, WORK, moved)] == ["watermark"]


def test_what_the_definition_no_longer_has_is_nobodys() -> None:
    gone = InputSlice("gone", "t", "T3", 0, 0, 1, 1, ONE)
    made = replace(
        MADE, inputs=(*MADE.inputs, gone), outputs=(*MADE.outputs, OutputSlice("left", "t", 0, 0, 1, 1, ONE))
    )
    assert part_of(made, SPEC, 0) == PART
    assert differences(made, PART, WORK, FOUND) == []


def test_a_part_may_be_empty() -> None:
    assert differences(MADE, NodePart(frozenset(), {}, False), WORK, StepResult((), (), (), False)) == []


EXCHANGED = replace(
    OF_TWO,
    layout=Layout((), 4, MADE.layout.outputs, (ExchangeLayout("x", 2, 1),)),
    exchanges=(
        sent(0, run(0, 5, 6), run(1, 6, 8, 2)),
        sent(1, run(1, 0, 1, 4), run(1, 1, 2)),
        sent(2, run(0, 3, 4, 3)),
    ),
)
EXCHANGING = replace(STAGED, inputs=TWO_NODES.inputs)
OF_NODE_0 = StepResult((FOUND.inputs[0],), (FOUND.outputs[0],), (), False)


def exchanged(*slices: ExchangeSlice, taken: int = 4) -> list[Difference]:
    part = part_of(EXCHANGED, EXCHANGING, 0)
    result = replace(OF_NODE_0, sent=slices, taken=(ExchangeTaken("x", 0, taken),))
    return differences(EXCHANGED, part, work_of(EXCHANGED, EXCHANGING, 0), result)


def test_what_was_sent_is_compared_where_the_senders_were_run_again() -> None:
    """By slot and destination, wherever it would have come to lie and however it was packed."""
    packed = replace(run(1, 0, 9, 5), digest=content(EXCHANGED.exchanges[1].runs)[1])
    assert exchanged() == []
    assert exchanged(EXCHANGED.exchanges[0], sent(1, packed)) == []
    [other] = exchanged(sent(0, run(0, 5, 6), run(1, 6, 8, 3)), EXCHANGED.exchanges[1])
    assert str(other) == (
        f"step 3: exchange 'x' partition 0 differs: the log has 2 records with digest {digest(2)}, this run has 3 "
        f"with {digest(3)}"
    )
    nothing = exchanged(sent(0), sent(1))
    assert [(each.partition, each.expected, each.found) for each in nothing] == [
        (0, (1, digest(1)), (0, "0" * 32)),
        (0, (2, digest(2)), (0, "0" * 32)),
        (1, content(EXCHANGED.exchanges[1].runs), (0, "0" * 32)),
    ]
    [left_out] = exchanged(EXCHANGED.exchanges[0])
    assert left_out.partition == 1
    swapped = [replace(piece, partition=1 - piece.partition) for piece in EXCHANGED.exchanges[:2]]
    assert exchanged(*swapped) == [], "Spark may give the partitions of a state to other tasks"


def test_a_digest_that_is_exact_is_compared_as_far_as_the_log_has_it() -> None:
    """What the steps of older versions have sent has plain ones, which can't tell some rows apart."""

    def with_exact(piece: ExchangeSlice, number: int) -> ExchangeSlice:
        def of(digest: str) -> str:
            return f"{digest[:16]}{number:032x}{digest[16:]}"

        return replace(piece, runs=tuple(replace(run, digest=of(run.digest)) for run in piece.runs))

    first, second = EXCHANGED.exchanges[:2]
    exact = with_exact(first, 1), with_exact(second, 1)
    assert exchanged(*exact) == [], "an old step, run again by who knows both"
    made = replace(EXCHANGED, exchanges=(*exact, EXCHANGED.exchanges[2]))

    def again(*slices: ExchangeSlice) -> list[Difference]:
        part, work = part_of(made, EXCHANGING, 0), work_of(made, EXCHANGING, 0)
        taken = (ExchangeTaken("x", 0, 4),)
        return differences(made, part, work, replace(OF_NODE_0, sent=slices, taken=taken))

    assert again(*exact) == []
    assert again(first, second) == [], "a new step, run again by an older kcontrol"
    assert again(exact[0], second) == [], "by both"
    [other] = again(exact[0], with_exact(second, 2))
    assert (other.what, other.partition) == ("exchange", 1)


def test_what_was_taken_is_all_that_the_log_has_for_a_node() -> None:
    [fewer] = exchanged(taken=3)
    assert str(fewer) == "step 3: rows taken from exchange 'x' differs: the log has 4, this run has 3"


def test_slots_of_another_definition_are_not_compared() -> None:
    """It may have had as many tasks as this one has not."""
    part = part_of(EXCHANGED, replace(EXCHANGING, fingerprint="f2"), 0)
    result = replace(OF_NODE_0, sent=(sent(0),))
    assert differences(EXCHANGED, part, work_of(EXCHANGED, EXCHANGING, 0), result) == []


def test_a_shared_watermark_is_not_one_nodes_to_move() -> None:
    made = replace(OF_TWO, watermarks=(Watermark("q", (5,), 5),), watermark_moved=False)
    moved = replace(OF_NODE_0, watermark_moved=True)
    assert differences(made, part_of(made, TWO_NODES, 0), WORK, moved) == []
