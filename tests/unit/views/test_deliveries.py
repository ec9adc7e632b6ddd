"""What is told of deliveries: by several processes of one together, and to people."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.views.deliveries import (
    MAX_STANDING_BY,
    SILENT_MS,
    DeliveriesSeen,
    DeliveryFacts,
    StandsBy,
    ToldDelivery,
    delivery_facts,
    is_at_work,
    with_others,
)

TOLD = ToldDelivery(
    *("totals", "totals", "postgresql", "exactly_once", "running", 7, 0.0, "", 1_000_000),
    *("postgresql://db:5432/shop", 900_000, "a"),
)
COMMITTED = 9


def told(who: str, state: str, at_ms: int = TOLD.at_ms, **more: Any) -> ToldDelivery:
    return replace(TOLD, who=who, state=state, at_ms=at_ms, **more)


def facts(one: ToldDelivery, later_ms: int = 0) -> DeliveryFacts:
    (found,) = delivery_facts(DeliveriesSeen([one], 0), COMMITTED, one.at_ms + later_ms)
    return found


@pytest.mark.parametrize("waits", ["starting", "standing_by", "away", "stopped"])
@pytest.mark.parametrize("works", ["running", "away"])
def test_who_waits_does_not_hide_who_delivers(works: str, waits: str) -> None:
    holder = told("a", works)
    both = with_others(holder, told("b", waits, holder.at_ms + 1, step=-1))
    assert replace(both, standing_by=()) == holder
    listed = ("b",) if waits in ("standing_by", "away") else ()
    assert tuple(each.who for each in both.standing_by) == listed
    assert with_others(both, told("a", works, holder.at_ms + 2)).standing_by == both.standing_by


def test_who_takes_over_is_told_of_and_stands_by_no_more() -> None:
    both = with_others(told("a", "running"), told("b", "standing_by"))
    taken = with_others(both, told("b", "running", TOLD.at_ms + 1, step=8))
    assert (taken.who, taken.step, taken.standing_by) == ("b", 8, ())
    late = with_others(taken, told("a", "stopped", TOLD.at_ms + 2))
    assert late == taken


def test_a_halt_is_told_whoever_delivers() -> None:
    halted = with_others(told("a", "running"), told("b", "halted", reason="no table"))
    assert (halted.state, halted.reason) == ("halted", "no table")


@pytest.mark.parametrize("after_ms", [SILENT_MS + 1, -SILENT_MS - 1])
def test_who_is_not_heard_of_any_more_hides_nobody(after_ms: int) -> None:
    silent = told("a", "running", standing_by=(StandsBy("c", TOLD.at_ms),))
    waits = told("b", "standing_by", TOLD.at_ms + after_ms)
    assert with_others(silent, waits) == waits


def test_of_two_that_stand_by_both_are_told_of_though_nobody_delivers() -> None:
    both = facts(with_others(told("a", "standing_by"), told("b", "standing_by")))
    assert (both.state, both.by, both.standing_by) == ("standing_by", None, ["a", "b"])


def test_more_than_so_many_that_stand_by_are_not_told_of() -> None:
    now = TOLD
    for number in range(2 * MAX_STANDING_BY):
        now = with_others(now, told(f"b{number:02}", "standing_by"))
    assert len(now.standing_by) == MAX_STANDING_BY
    assert now.who == TOLD.who


def test_it_is_said_how_far_it_is_who_delivers_and_since_when() -> None:
    found = facts(replace(TOLD, standing_by=(StandsBy("b", TOLD.at_ms), StandsBy("gone", 1))), 4_000)
    assert (found.step, found.behind, found.since_ms, found.by) == (7, 2, 900_000, "a")
    assert found.standing_by == ["b"]
    assert (found.silent, found.silent_ms) == (False, 4_000)


def test_what_is_not_known_is_said_to_be_so() -> None:
    old = ToldDelivery("o", "t", "webhook", "at_least_once", "starting", -1, 0.0, "", TOLD.at_ms)
    found = facts(old, -50)
    assert (found.step, found.behind, found.since_ms, found.by, found.address) == (-1, None, None, None, "")
    assert found.silent_ms == 0


@pytest.mark.parametrize(("state", "silent"), [("running", True), ("halted", False), ("stopped", False)])
def test_of_one_at_work_that_says_nothing_any_more_it_is_said(state: str, silent: bool) -> None:
    assert facts(told("a", state), SILENT_MS + 1).silent is silent


@pytest.mark.parametrize("state", ["starting", "standing_by", "running", "away", "stopped", "halted"])
def test_whoever_has_not_ended_is_at_work_until_it_is_silent(state: str) -> None:
    one = told("a", state)
    assert is_at_work(one, one.at_ms + SILENT_MS) is (state not in ("stopped", "halted"))
    assert is_at_work(one, one.at_ms - 1) is (state not in ("stopped", "halted"))
    assert not is_at_work(one, one.at_ms + SILENT_MS + 1)
