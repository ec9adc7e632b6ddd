"""The stages of a step: what counts as written, what is for whom, and what does not fit together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.log.keys import key_of
from kcontrol.core.model import (
    EMPTY_DIGEST,
    ExchangeLayout,
    ExchangeRun,
    ExchangeSlice,
    ExchangeTaken,
    FailureKind,
    InputRange,
    Layout,
    Logged,
    NodeJoin,
    Token,
    Written,
)
from kcontrol.core.step.exchange import (
    content,
    in_order,
    ready,
    runs_for,
    sent_through,
    slots,
    slots_of,
    stages_of,
    wrong_slices,
    wrong_taken,
)
from kcontrol.core.step.layout import layout_of
from tests.unit.core.made import SPEC
from tests.unit.core.staged import DELIVERED, STAGED, digest, run, sent, told

TOKEN = Token(2, 1, 7, 3, (0, 1))
LAYOUT = Layout((), 4, (), (ExchangeLayout("x", 2, 1),))


def view_of(*records: Written) -> PipelineView:
    view = PipelineView.empty("p")
    joins = [NodeJoin("p", node, f"u{node}", "host", 1) for node in range(2)]
    for offset, record in enumerate((*joins, *records)):
        view = evolve(view, Logged(offset, 0, record))
    return view


def test_the_number_of_stages() -> None:
    assert stages_of(SPEC) == 1
    assert stages_of(STAGED) == 2
    assert stages_of(DELIVERED) == 3
    alone = replace(SPEC, nodes=2, exchanges=(replace(DELIVERED.exchanges[1], sender="q", stage=0),))
    assert stages_of(alone) == 2


def test_reports_of_early_stages_have_keys_of_their_own() -> None:
    keys = [key_of(told(TOKEN, 1, stage=stage, early=stage < 2)) for stage in range(3)]
    assert keys == ["p/node/1/1/written/0", "p/node/1/1/written/1", "p/node/1/1/written"]


def test_a_stage_is_over_when_every_life_in_the_token_has_written_it() -> None:
    both = told(TOKEN, 0), told(TOKEN, 1)
    assert not ready(view_of(), TOKEN, 0)
    assert not ready(view_of(both[0]), TOKEN, 0)
    assert ready(view_of(*both), TOKEN, 0)
    assert not ready(view_of(*both), TOKEN, 1)


@pytest.mark.parametrize(
    "other",
    [
        told(replace(TOKEN, attempt=2), 1),
        told(replace(TOKEN, producer_epoch=4), 1),
        told(replace(TOKEN, incarnations=(0, 9)), 1),
        told(TOKEN, 1, failure=FailureKind.QUERY),
        told(TOKEN, 1, early=False),
        told(TOKEN, 1, stage=1),
    ],
)
def test_nothing_else_counts_as_that(other: Written) -> None:
    assert not ready(view_of(told(TOKEN, 0), other), TOKEN, 0)


def test_a_report_of_a_later_attempt_takes_the_earlier_ones_place() -> None:
    """Then the stage after it does not begin either: what was sent in it is no longer known."""
    early = [told(TOKEN, node, stage=stage) for stage in (0, 1) for node in (0, 1)]
    assert ready(view_of(*early), TOKEN, 1)
    assert not ready(view_of(*early, told(replace(TOKEN, attempt=2), 0)), TOKEN, 1)


def test_what_is_for_a_node() -> None:
    first = sent(0, run(1, 5, 7, 3), run(0, 7, 8), run(1, 8, 9))
    second = sent(2, run(0, 1, 2))
    view = view_of(told(TOKEN, 0, first), told(TOKEN, 1, second))
    everything = sent_through(view, TOKEN, 0)
    assert everything == (first, second)
    assert runs_for(everything, 0) == (
        replace(first, runs=(run(0, 7, 8),)),
        replace(second, runs=(run(0, 1, 2),)),
    )
    assert runs_for(everything, 1) == (replace(first, runs=(run(1, 5, 7, 3), run(1, 8, 9))),)


def test_slices_are_in_order_of_exchange_and_partition() -> None:
    slices = [sent(2), sent(0, exchange="y"), sent(1)]
    assert in_order(slices) == (sent(1), sent(2), sent(0, exchange="y"))


def test_each_writer_task_has_a_slot_of_its_own() -> None:
    assert [list(slots_of(STAGED, LAYOUT, "x", node)) for node in (0, 1)] == [[0, 1], [2, 3]]
    fewer = replace(LAYOUT, exchanges=(ExchangeLayout("x", 1, 1),))
    assert slots(STAGED, fewer) == (("exchange.x", 0), ("exchange.x", 2))
    assert slots(SPEC, Layout((), 1, ())) == ()


def test_digests_of_runs_add_up_modulo_two_to_the_64th_each() -> None:
    most = ExchangeRun(0, 0, 1, 2, "f" * 32)
    assert content([most, ExchangeRun(0, 1, 2, 1, digest(2))]) == (3, f"{1:016x}{5:016x}")
    assert content([]) == (0, EMPTY_DIGEST)


@pytest.mark.parametrize(
    ("piece", "stage", "wrong"),
    [
        (sent(0, run(0, 5, 6), run(1, 6, 9)), 0, ""),
        (sent(1), 0, ""),
        (sent(2, run(0, 5, 6)), 0, "sent to exchange x partition 2, which is not its own"),
        (sent(0, run(0, 5, 6)), 1, "sent to exchange x partition 0 in stage 1, where it sends nothing there"),
        (sent(0, exchange="z"), 0, "sent to exchange z partition 0 in stage 0, where it sends nothing there"),
        (sent(0, run(2, 5, 6)), 0, "sent to exchange x partition 0 rows for node 2, which there is not"),
        (
            sent(0, run(0, 5, 6), run(1, 7, 8)),
            0,
            "sent to exchange x partition 0 offsets [7, 8) after [5, 6): a gap or an overlap",
        ),
        (
            sent(0, run(0, 5, 7), run(1, 6, 8)),
            0,
            "sent to exchange x partition 0 offsets [6, 8) after [5, 7): a gap or an overlap",
        ),
        (
            sent(0, run(0, 5, 5)),
            0,
            "sent to exchange x partition 0 offsets [5, 5) after [5, 5): a gap or an overlap",
        ),
        (
            ExchangeSlice("x", 0, 5, 9, (run(0, 5, 6),)),
            0,
            "sent to exchange x partition 0 runs up to offset 6 of [5, 9)",
        ),
        (
            ExchangeSlice("x", 0, 4, 6, (run(0, 5, 6),)),
            0,
            "sent to exchange x partition 0 offsets [5, 6) after [4, 4): a gap or an overlap",
        ),
        (sent(0, run(0, 5, 6, 0)), 0, "sent to exchange x partition 0 no rows at offsets [5, 6)"),
    ],
)
def test_what_a_node_sends_lies_in_its_own_slots_without_a_gap(
    piece: ExchangeSlice, stage: int, wrong: str
) -> None:
    assert wrong_slices(STAGED, LAYOUT, 0, stage, [piece]) == wrong


def test_a_slot_is_reported_once() -> None:
    piece = sent(0, run(0, 5, 6))
    assert wrong_slices(STAGED, LAYOUT, 0, 0, [piece, piece]) == "reports exchange x partition 0 twice"


def test_all_that_was_sent_is_taken_and_nothing_else() -> None:
    slices = [sent(0, run(1, 5, 7, 3), run(0, 7, 8)), sent(2, run(1, 0, 1, 4))]
    own = [(ExchangeTaken("x", 0, 1),), (ExchangeTaken("x", 1, 7),)]
    assert wrong_taken(slices, own) == ""
    assert wrong_taken(slices, [own[0], ()]) == "node 1 took 0 rows of exchange x, but 7 were sent to it"
    more = [(ExchangeTaken("x", 0, 2),), own[1]]
    assert wrong_taken(slices, more) == "node 0 took 2 rows of exchange x, but 1 were sent to it"
    assert "reports what node 1 took" in wrong_taken(slices, [own[1], own[0]])
    assert "or does twice" in wrong_taken(slices, [(*own[0], *own[0]), own[1]])
    strange = [(*own[0], ExchangeTaken("z", 0, 1)), own[1]]
    assert wrong_taken(slices, strange) == "node 0 took 1 rows of exchange z, but 0 were sent to it"
    assert wrong_taken([], [(ExchangeTaken("x", 0, 0),), ()]) == ""


@pytest.mark.parametrize(
    ("records", "senders", "readers"),
    [(0, 1, 1), (4, 1, 1), (5, 1, 2), (9, 2, 2), (900, 2, 2)],
)
def test_how_an_exchange_is_cut(records: int, senders: int, readers: int) -> None:
    """Senders as the inputs are read; readers by the records of the whole step, up to a node's shards and to max_tasks."""
    halves = (records - records // 2, records // 2)
    division = [InputRange("in", "input", "T1", p, 0, size) for p, size in enumerate(halves)]
    assert layout_of(STAGED, division).exchanges == (ExchangeLayout("x", senders, readers),)
    assert layout_of(DELIVERED, division).exchanges[1] == ExchangeLayout("y", readers, 1)
    one_shard = replace(STAGED, layout=replace(STAGED.layout, shuffle_partitions=2))
    assert layout_of(one_shard, division).exchanges[0].readers == 1
    assert layout_of(SPEC, division).exchanges == ()
