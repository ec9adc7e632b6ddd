"""Folding what compaction has left of a control log gives what folding all of it gives,
for any log and any compaction."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any, TypeGuard

from hypothesis import given
from hypothesis import strategies as st

from kcontrol.core.log.control_view import PipelineView, evolve, superseded_keys
from kcontrol.core.model import Claim, Desired, LayoutRequest, Logged, NodeJoin, SkipRequest, Tombstone
from tests.property.core.logs import compactions, key, logs


def fold(log: Iterable[Logged]) -> PipelineView:
    return reduce(evolve, log, PipelineView.empty("a"))


@given(logs().flatmap(lambda log: st.tuples(st.just(log), compactions(log))))
def test_compaction_changes_nothing(case: tuple[list[Logged], list[Logged]]) -> None:
    log, compacted = case
    assert fold(compacted) == fold(log)


@given(logs(), st.integers(0, 30))
def test_a_reader_may_begin_before_the_compaction_and_end_after_it(log: list[Logged], at: int) -> None:
    newest = {key(logged): logged.offset for logged in log}
    rest = [one for one in log[at:] if newest[key(one)] == one.offset]
    assert reduce(evolve, rest, fold(log[:at])) == fold(log)


@given(logs())
def test_the_newest_claim_and_joins_are_in_charge(log: list[Logged]) -> None:
    view = fold(log)
    claims = [one for one in view.latest.values() if isinstance(one.record, Claim)]
    assert view.epoch == max((one.offset for one in claims), default=-1)
    joins = [one for one in view.latest.values() if isinstance(one.record, NodeJoin)]
    for node in (0, 1):
        mine = [one for one in joins if one.record.node == node]
        placements = [one.record.placement for one in mine if one.record.placement is not None]
        newest = max(placements, default=None)
        assert view.placements.get(node) == newest
        assert view.incarnation(node) == max(
            (one.offset for one in mine if one.record.placement in (None, newest)), default=None
        )


@given(logs())
def test_each_process_knows_whether_it_is_replaced(log: list[Logged]) -> None:
    view = fold(log)
    for one in view.latest.values():
        if isinstance(one.record, NodeJoin):
            in_charge = view.incarnation(one.record.node) == one.offset
            assert view.is_replaced(one.record.node, one.offset, one.record.placement) is not in_charge


@given(logs())
def test_forgetting_what_is_superseded_changes_nothing_that_counts(log: list[Logged]) -> None:
    view = fold(log)
    end = len(log)
    gone = superseded_keys(view)
    after = fold([*log, *(Logged(end + index, 0, Tombstone(one)) for index, one in enumerate(gone))])
    assert (after.epoch, after.incarnations, after.claim()) == (view.epoch, view.incarnations, view.claim())
    assert after.placements == view.placements
    for node in (0, 1):
        assert after.node_state(node) == view.node_state(node)
        assert after.command(node) == view.command(node)
        assert after.received(node, "x") == view.received(node, "x")
        assert after.replaying(node) == view.replaying(node)
    assert (after.desired(), after.resume(), after.status()) == (view.desired(), view.resume(), view.status())
    assert (after.input_desired("x"), after.skips) == (view.input_desired("x"), view.skips)
    assert (after.layout_request(), after.wish, after.ended) == (view.layout_request(), view.wish, view.ended)


@given(logs())
def test_of_what_agents_ask_for_only_the_newest_wish_counts(log: list[Logged]) -> None:
    view = fold(log)
    found = [one.record for one in view.latest.values() if isinstance(one.record, LayoutRequest)]
    assert view.wish == max((one.wish for one in found if one.wish is not None), default=None)
    asked = view.user_layout_request()
    assert (asked is None) is not bool(found)
    assert asked is None or asked.wish in (None, view.wish)


@given(logs())
def test_of_what_agents_say_of_an_end_only_the_newest_counts_and_only_until_a_newer_node(
    log: list[Logged],
) -> None:
    view = fold(log)
    said = [one.record for one in view.latest.values() if isinstance(one.record, Desired)]
    assert view.ended == max((one.wish for one in said if one.wish is not None), default=None)
    desired = view.desired()
    if desired is not None and desired.wish is not None:
        assert desired.wish == view.ended
        assert all(one <= desired.wish for one in view.placements.values())
    assert desired is not None or all(one.wish is not None for one in said)


@given(logs())
def test_the_newest_skip_of_each_partition_is_known(log: list[Logged]) -> None:
    view = fold(log)
    skips = {
        (one.record.input, one.record.partition): one.record for one in view.latest.values() if _is_skip(one)
    }
    assert {place: view.skip(*place) for place in view.skips} == skips


def _is_skip(logged: Logged) -> TypeGuard[Any]:
    return isinstance(logged.record, SkipRequest)


@given(logs(), st.data())
def test_what_is_superseded_stays_superseded(log: list[Logged], data: st.DataObject) -> None:
    """Tombstones that come late, after others have written more, still change
    nobody's idea of who is newest."""
    log = [one for one in log if not isinstance(one.record, Tombstone)]
    at = data.draw(st.integers(0, len(log)))
    written_since = {key(one) for one in log[at:]}
    gone = [one for one in superseded_keys(fold(log[:at])) if one not in written_since]
    view = fold(log)
    after = reduce(evolve, (Logged(100 + index, 0, Tombstone(one)) for index, one in enumerate(gone)), view)
    assert (after.epoch, after.incarnations) == (view.epoch, view.incarnations)
    assert (after.layout_request(), after.wish, after.ended) == (view.layout_request(), view.wish, view.ended)
    assert after.desired() == view.desired()
