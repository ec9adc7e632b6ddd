"""What a node of several has to do of a step: in which stage, to whom it sends, and that nothing sent to it is passed over."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.engine.exchange_results import early_result, with_exchanges
from kcontrol.adapters.spark.engine.node_work import NodeWork
from kcontrol.adapters.spark.state.shards import OwnedShards
from kcontrol.core.model import (
    ExchangeLayout,
    ExchangeTaken,
    FailureKind,
    InputRange,
    Layout,
    OutputLayout,
    StepResult,
    StepWork,
)
from kcontrol.core.step.assignment import dealt
from kcontrol.core.step.layout import writers_of
from kcontrol.errors import StepFailedError
from tests.unit.core.made import SPEC
from tests.unit.core.staged import DELIVERED, STAGED, run, sent
from tests.unit.spark.works import work

ME, OTHER = 1, 0
NOTHING = StepResult((), (), (), False)
LAYOUT = Layout(
    (), 4, (OutputLayout("out", 4, 1, "exact"),), (ExchangeLayout("x", 2, 2), ExchangeLayout("y", 2, 1))
)


def bound(*queries: tuple[str, tuple[str, ...]]) -> Any:
    """Queries with what each reads of exchanges."""
    return SimpleNamespace(
        queries=tuple(
            SimpleNamespace(
                name=name,
                exchanges=exchanges,
                outputs=() if name.endswith(".send") else ("out",),
                stateful=True,
            )
            for name, exchanges in queries
        )
    )


ALL = bound(("x.send", ()), ("q", ("x",)))


def node_work(spec: Any = DELIVERED, queries: Any = ALL) -> NodeWork:
    return NodeWork(spec, ME, queries, {"y": "zstd"})


def attempt(of: NodeWork, expected: Any = None) -> AttemptLedger:
    what: StepWork = replace(work(), layout=LAYOUT, writers=writers_of(DELIVERED, LAYOUT, ME))
    return AttemptLedger(1, what, expected, of.names, stages=of.stages(LAYOUT))


def never(exchange: str, runs: Any) -> int:
    raise AssertionError(f"{runs} of {exchange} were read by a task")


def test_queries_and_deliveries_have_their_stages() -> None:
    it = node_work()
    assert it.last_stage == 2
    assert [it.of_stage(stage) for stage in range(3)] == [{"x.send"}, {"q"}, {"y"}]
    assert [each.name for each in it.delivered(2)] == ["y"]
    assert it.delivered(1) == []
    assert NodeWork(SPEC, 0, bound(("q", ())), {}).last_stage == 0


def test_rows_go_to_the_nodes_of_their_shards_and_records_to_those_of_their_partitions() -> None:
    it = node_work()
    [rows] = it.sends(ALL.queries[0], attempt(it))
    assert (rows.first, rows.owners, rows.output) == (2, (0, 1, 0, 1), None)
    [records] = it.sends(ALL.queries[1], attempt(it))
    assert records.output is not None
    assert (records.output.name, records.compression) == ("out", "zstd")
    mine = [partition for partition, node in enumerate(records.owners) if node == ME]
    assert tuple(mine) == records.output.own


@pytest.mark.parametrize("owners", [(1, 0, 1, 0), (0, 0, 0, 1)])
def test_once_the_layout_was_changed_rows_go_to_who_owns_their_shards_by_it(
    monkeypatch: pytest.MonkeyPatch, owners: tuple[int, ...]
) -> None:
    """S001-101: another table than the one that shards are dealt by."""
    monkeypatch.setattr("kcontrol.adapters.spark.engine.node_work.can_run_some", lambda _spark: True)
    it = node_work(replace(DELIVERED, owners=owners, assignment=1))
    [rows] = it.sends(ALL.queries[0], attempt(it))
    assert rows.owners == owners != dealt(4, 2)
    mine = frozenset(shard for shard, node in enumerate(owners) if node == ME)
    assert it.shards(MagicMock()) == {"q": OwnedShards(mine, 4)}


def test_once_the_layout_was_changed_records_go_to_who_writes_their_partitions_by_it() -> None:
    outputs = (replace(DELIVERED.outputs[0], node_of=(1, 1)),)
    it = node_work(replace(DELIVERED, outputs=outputs))
    [records] = it.sends(ALL.queries[1], attempt(it))
    assert records.owners == (1, 1, *(p % 2 for p in range(2, 4)))


def test_one_node_reads_both_own_shards_and_the_other_alone_writes() -> None:
    """S000-10."""
    read = (replace(DELIVERED.inputs[0], node=OTHER, node_of=(OTHER,) * 2),)
    spec = replace(DELIVERED, inputs=read, outputs=(replace(DELIVERED.outputs[0], node=ME),))
    reader, writer = (NodeWork(spec, node, ALL, {}) for node in (OTHER, ME))
    what = replace(work(), division=tuple(InputRange("in", "input", "T1", each, 0, 1) for each in range(2)))
    assert [len(each.inputs(what)) for each in (reader, writer)] == [2, 0]
    for each in (reader, writer):
        [rows] = each.sends(ALL.queries[0], attempt(each))
        [records] = each.sends(ALL.queries[1], attempt(each))
        assert (rows.owners, records.owners) == ((0, 1, 0, 1), (ME,) * 4)


def test_queries_with_state_behind_exchanges_run_the_shards_to_which_rows_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    can = True
    monkeypatch.setattr("kcontrol.adapters.spark.engine.node_work.can_run_some", lambda _spark: can)
    it = node_work()
    [sent_to] = it.sends(ALL.queries[0], attempt(it))
    mine = frozenset(shard for shard, node in enumerate(sent_to.owners) if node == ME)
    assert it.shards(MagicMock()) == {"q": OwnedShards(mine, 4)}
    assert node_work(replace(DELIVERED, nodes=1)).shards(MagicMock()) == {}
    without = bound(("x.send", ()), ("q", ("x",)))
    without.queries[1].stateful = False
    assert node_work(queries=without).shards(MagicMock()) == {}
    can = False
    assert it.shards(MagicMock()) == {}


def test_a_query_that_sends_writes_no_partition() -> None:
    it = node_work()
    assert it.own_partitions(attempt(it), "q") == {}
    plain = node_work(STAGED)
    assert plain.own_partitions(attempt(plain), "q").keys() == {"out"}


def test_an_early_stage_tells_what_it_sent_alone() -> None:
    it = node_work()
    ledger = attempt(it)
    ledger.grant("x.send", 0, 11, 0)
    ledger.report_sent("x.send", 0, 11, (sent(2, run(0, 0, 1)),))
    ledger.grant("q", 0, 12, 0)
    ledger.report_sent("q", 0, 12, (sent(2, run(0, 0, 1), exchange="y"),))
    assert early_result(ledger, it, 0).sent == (sent(2, run(0, 0, 1)),)
    assert early_result(ledger, it, 1).sent == (sent(2, run(0, 0, 1), exchange="y"),)


def test_what_was_taken_is_told_of_every_exchange() -> None:
    it = node_work()
    ledger = attempt(it)
    ledger.exchanging.begin(2, (sent(0, run(OTHER, 0, 1, 7), run(ME, 1, 2, 4)),))
    ledger.exchanging.report_taken("q", "x", 0, 4)
    found = with_exchanges(NOTHING, ledger, it, never)
    assert found.taken == (ExchangeTaken("x", ME, 4), ExchangeTaken("y", ME, 0))


def test_what_no_task_has_read_is_counted_and_must_be_all() -> None:
    it = node_work()
    ledger = attempt(it)
    ledger.exchanging.begin(2, (sent(0, run(ME, 1, 2, 4)),))
    found = with_exchanges(NOTHING, ledger, it, lambda _, runs: sum(each.records for each in runs))
    assert found.taken[0].records == 4
    with pytest.raises(StepFailedError, match=r"4 rows were sent .* query 'q' finds others") as failed:
        with_exchanges(NOTHING, ledger, it, lambda _exchange, _runs: 3)
    assert failed.value.kind is FailureKind.LOST


def test_rows_that_no_query_of_the_node_reads_end_the_attempt() -> None:
    it = node_work(queries=bound(("x.send", ())))
    ledger = attempt(it)
    ledger.exchanging.begin(2, (sent(0, run(ME, 1, 2, 4)),))
    with pytest.raises(StepFailedError, match="no query of it reads them"):
        with_exchanges(NOTHING, ledger, it, never)


def test_a_replay_tells_of_each_sender_task_what_it_would_have_sent() -> None:
    it = node_work(STAGED)
    ledger = attempt(it, SimpleNamespace(inputs=()))
    ledger.exchanging.begin(1, ())
    ledger.grant("x.send", 1, 11, 0)
    ledger.report_sent("x.send", 1, 11, (sent(3, run(0, 0, 0)),))
    assert with_exchanges(NOTHING, ledger, it, never).sent == (sent(3, run(0, 0, 0)), sent(2))
