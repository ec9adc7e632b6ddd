"""State that a coordinator has divided anew by itself: when, how, and when not."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from kcontrol.core.coordinator.parts.balancing import NOTHING_LOOKED_AT
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import (
    CheckpointPart,
    LayoutPhase,
    LayoutReady,
    LayoutRequest,
    Logged,
    PipelineSpec,
    RebalanceSpec,
    ShardSize,
)
from kcontrol.core.step.assignment import owners_of
from kcontrol.core.step.balance import Fullest
from kcontrol.core.step.layout_change import changed, refused_live
from tests.unit.core.drive import CoordinatorDriver, published
from tests.unit.core.made import boundary, checkpoint
from tests.unit.core.test_live_layout import WIDE, running, told

POLICY = RebalanceSpec(
    every_ms=5_000, when_percent=130, checkpoints=2, least_bytes=20_000_000, timeout_ms=30_000
)
EVENING = replace(WIDE, rebalance=POLICY)
MB = 1_000_000
UNEVEN = (60, 10, 40, 10)
"""MB by shard: of node 0 shards 0 and 2, of node 1 the others; the mean is 60."""
EVEN = (30, 30, 30, 30)


def starting(spec: PipelineSpec = EVENING) -> CoordinatorDriver:
    """Two nodes, open at step 1; the layout has been still for as long as it must."""
    driver = running(spec=spec)
    driver.tick(POLICY.every_ms)
    return driver


def saved(driver: CoordinatorDriver, sizes_mb: tuple[int, ...], nodes: int = 2) -> list[Any]:
    """Another step, and its checkpoint: both nodes have saved all shards, of which only their own count."""
    step = driver.state.steps.step + 1
    driver.see_step(boundary(step, (step + 4, step - 1), (step + 5, step), nodes=nodes))
    for node in range(nodes):
        shards = tuple(
            ShardSize(shard, size * MB if owners_of(EVENING)[shard] == node else 7_000 * MB)
            for shard, size in enumerate(sizes_mb)
        )
        driver.say(node, step=step)
        driver.see(
            CheckpointPart("p", node, driver.incarnations[node], 1, step, step, f"m{node}", 1, 10, "", shards)
        )
    made = checkpoint(step, nodes)
    parts = tuple(replace(each, incarnation=driver.incarnations[each.node]) for each in made.parts)
    return driver.see_step(replace(made, parts=parts))


def asked(effects: list[Any]) -> LayoutRequest | None:
    found = published(LayoutRequest, effects)
    assert len(found) <= 1
    return found[0] if found else None


def test_when_a_node_has_had_too_much_in_enough_checkpoints_the_fewest_shards_move() -> None:
    driver = starting()
    assert asked(saved(driver, UNEVEN)) is None
    assert driver.status.balance == "node 0 has 100.0 MB of state, 1.67 times the mean of all nodes"
    request = asked(saved(driver, UNEVEN))
    assert request is not None
    assert (request.number, request.nodes, request.timeout_ms, request.after) == (1, 2, 30_000, "")
    assert request.owners == (0, 1, 1, 1)
    assert request.why == (
        "node 0 has 100.0 MB of state, 1.67 times the mean of all nodes: 1 shards with 40.0 MB are to move"
    )
    assert driver.status.balance == request.why


def test_off_unless_it_is_asked_for() -> None:
    driver = starting(WIDE)
    assert all(asked(saved(driver, UNEVEN)) is None for _ in range(4))
    assert driver.status.balance == ""


def test_nothing_is_made_or_remembered_while_it_is_off_and_the_time_begins_when_it_is_on() -> None:
    driver = starting(WIDE)
    assert driver.state.balancing is NOTHING_LOOKED_AT
    driver.see(EVENING)
    assert all(asked(saved(driver, UNEVEN)) is None for _ in range(3))
    driver.tick(POLICY.every_ms)
    assert asked(saved(driver, UNEVEN)) is not None


def test_an_even_checkpoint_in_between_begins_the_count_anew() -> None:
    driver = starting()
    assert [asked(saved(driver, sizes)) is None for sizes in (UNEVEN, EVEN, UNEVEN)] == [True] * 3
    assert asked(saved(driver, UNEVEN)) is not None


def test_too_little_to_be_worth_a_pause_is_left_as_it_is() -> None:
    driver = starting()
    less = tuple(size // 10 for size in UNEVEN)
    assert all(asked(saved(driver, less)) is None for _ in range(3))
    assert driver.status.balance == ""


def test_where_no_division_is_better_nothing_moves_and_people_are_told() -> None:
    driver = starting()
    assert all(asked(saved(driver, (100, 10, 0, 10))) is None for _ in range(3))
    assert driver.status.balance.endswith(
        "times the mean of all nodes: no shard can be moved that would help"
    )


def test_not_before_the_layout_was_still_for_long_enough() -> None:
    driver = running(spec=EVENING)
    assert all(asked(saved(driver, UNEVEN)) is None for _ in range(3))
    driver.tick(POLICY.every_ms)
    assert asked(saved(driver, UNEVEN)) is not None


def test_once_it_is_asked_for_it_is_not_asked_for_again_before_that() -> None:
    driver = starting()
    saved(driver, UNEVEN)
    assert asked(saved(driver, UNEVEN)) is not None
    assert all(asked(saved(driver, UNEVEN)) is None for _ in range(3))
    driver.tick(POLICY.every_ms)
    assert asked(saved(driver, UNEVEN)) is not None


def test_not_while_a_change_runs_and_the_time_begins_when_it_is_over() -> None:
    driver = starting()
    driver.see(LayoutRequest("p", "l1", 1, 3, 30_000))
    assert all(asked(saved(driver, UNEVEN)) is None for _ in range(3))
    driver.see(LayoutRequest("p", "l2", 1, 0, 0))
    assert told(driver).phase is LayoutPhase.GIVEN_UP
    assert all(asked(saved(driver, UNEVEN)) is None for _ in range(3))
    driver.tick(POLICY.every_ms)
    request = asked(saved(driver, UNEVEN))
    assert request is not None
    assert request.after == "l2"


def test_not_between_two_changes_of_an_upgrade() -> None:
    driver = starting()
    driver.see(LayoutRequest("p", "u1", 1, 0, 0, way="replace", left=(1,), whole=2))
    driver.tick(POLICY.every_ms)
    assert all(asked(saved(driver, UNEVEN)) is None for _ in range(3))
    assert driver.status.balance.endswith(": an upgrade is not over")


def test_a_checkpoint_whose_shards_are_not_weighed_counts_for_nothing() -> None:
    driver = starting()
    saved(driver, UNEVEN)
    saved(driver, UNEVEN[:3])
    assert asked(saved(driver, UNEVEN)) is None
    assert asked(saved(driver, UNEVEN)) is not None


def test_the_change_that_it_asks_for_is_made_as_any() -> None:
    driver = starting()
    saved(driver, UNEVEN)
    request = asked(saved(driver, UNEVEN))
    assert request is not None
    step = driver.state.steps.step
    driver.see(request)
    assert told(driver).request_id == request.request_id
    for copied in (0, step):
        for node in range(2):
            ready_of(driver, node, request.request_id, copied)
    change = driver.state.changing.now
    assert change is not None
    assert change.held
    assert (change.target.owners, len(change.target.moves)) == ((0, 1, 1, 1), 1)


def ready_of(driver: CoordinatorDriver, node: int, request_id: str, copied_step: int) -> None:
    driver.see(LayoutReady("p", node, "h", 7, f"u{node}", request_id, copied_step, 5, 10, "", driver.log.end))


def test_switched_off_what_it_has_asked_for_is_given_up() -> None:
    driver = starting()
    saved(driver, UNEVEN)
    request = asked(saved(driver, UNEVEN))
    assert request is not None
    driver.see(request)
    driver.see(WIDE)
    assert told(driver).phase is LayoutPhase.GIVEN_UP
    assert "does not ask for rebalancing any more" in told(driver).text


def test_whoever_asks_for_something_that_it_had_not_read_is_served_instead() -> None:
    own = LayoutRequest("p", "rebalance-1-1", 1, 2, 9, owners=(0, 1, 1, 1), why="so", after="l1")
    first, second = LayoutRequest("p", "l1", 1, 0, 0), LayoutRequest("p", "l2", 1, 3, 9)

    def view(*records: LayoutRequest) -> LayoutRequest | None:
        seen = PipelineView.empty("p")
        for offset, record in enumerate(records):
            seen = evolve(seen, Logged(offset, 0, record))
        return seen.layout_request()

    assert view(first, own) == own
    assert view(first, own, second) == view(first, second, own) == second
    assert view(own) is None


@pytest.mark.parametrize(
    ("owners", "spec", "why"),
    [
        ((0, 1, 0), EVENING, "has 4 shards and nodes 0 to 1, each of which has to own one of them"),
        ((0, 0, 0, 0), EVENING, "each of which has to own one of them"),
        ((0, 1, 2, 1), EVENING, "each of which has to own one of them"),
        ((0, 1, 0, 1), EVENING, "has its shards divided like that already"),
        ((0, 1, 1, 1), replace(EVENING, kept_in_place=("q",)), "it can't be moved"),
        ((0, 1, 1, 1), EVENING, ""),
    ],
)
def test_which_tables_can_be_asked_for(owners: tuple[int, ...], spec: PipelineSpec, why: str) -> None:
    refused = refused_live(spec, 2, 1, owners=owners)
    assert why in refused
    assert bool(why) == bool(refused)


def test_inputs_and_outputs_stay_where_they_are() -> None:
    change = changed(EVENING, 2, owners=(0, 1, 1, 1))
    assert (change.moved_inputs, change.moved_outputs, change.renumbered) == (0, 0, None)
    assert [(move.shard, move.from_, move.to) for move in change.moves] == [(2, 0, 1)]


def test_too_much_is_more_than_the_policy_says_of_the_mean_and_beyond_it() -> None:
    def has(size: int, **changes: int) -> bool:
        policy = replace(POLICY, **{"least_bytes": 0, **changes})
        return Fullest(0, size, Fraction(100)).has_too_much(policy)

    assert [has(130), has(131)] == [False, True]
    assert [has(200, least_bytes=100), has(200, least_bytes=101)] == [True, False]
