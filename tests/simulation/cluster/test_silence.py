"""An agent that the scheduler passes over for so long that it is missed has a cause of its death, as has one that reads its log
in pieces for so long; one that has its turns, and does not use them, has none. And nothing is at rest where a member has fallen
silent, be it that nobody has missed it yet."""

from __future__ import annotations

import pytest

from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.entries import Leave
from kcontrol.core.cluster.liveness import Beat
from tests.simulation.cluster.hosts import Host
from tests.simulation.cluster.invariants import DEAD_WITHOUT_A_CAUSE, TROUBLE_LASTS_MS
from tests.simulation.cluster.rest import not_at_rest
from tests.simulation.cluster.schedule import ClusterSchedule
from tests.simulation.cluster.world import NEVER_MS, TICK_MS, UNFIT_MS, ClusterWorld
from tests.simulation.invariants import Violation

SEED = 7


def _joined() -> tuple[ClusterSchedule, Host]:
    """A schedule in which nothing has gone wrong, and one of its members."""
    schedule = ClusterSchedule(SEED)
    while len(schedule.hosts) < 3:
        schedule.add_host()
    schedule.go_on(60)
    assert len(schedule.world.truth.members) == len(schedule.hosts)
    return schedule, schedule.hosts[-1]


def _beats_no_more(monkeypatch: pytest.MonkeyPatch, host: Host) -> None:
    right = AgentMachine.beat

    def beat(self: AgentMachine, now_ms: int) -> Beat | None:
        return None if self.me.name == host.name else right(self, now_ms)

    monkeypatch.setattr(AgentMachine, "beat", beat)


def _found_silent(schedule: ClusterSchedule, host: Host) -> bool:
    leaves = [one for one in schedule.world.log if isinstance(one, Leave)]
    return any((one.agent, one.reason) == (host.name, "silent") for one in leaves)


def test_who_has_no_turn_for_so_long_is_rightly_found_dead() -> None:
    """Nothing else is written down as a cause."""
    schedule, host = _joined()
    host.agent_frozen_until_ms = schedule.world.now_ms + 20 * TICK_MS
    schedule.go_on(40)
    assert _found_silent(schedule, host)


def test_who_has_its_turns_and_does_not_beat_is_found_dead_without_a_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schedule, host = _joined()
    _beats_no_more(monkeypatch, host)
    with pytest.raises(Violation, match=DEAD_WITHOUT_A_CAUSE):
        schedule.go_on(40)


def test_that_it_was_passed_over_long_ago_is_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, host = _joined()
    host.agent_frozen_until_ms = schedule.world.now_ms + 20 * TICK_MS
    schedule.go_on(20 + TROUBLE_LASTS_MS // TICK_MS)
    assert host.name in schedule.world.truth.members, "it has joined again"
    _beats_no_more(monkeypatch, host)
    with pytest.raises(Violation, match=DEAD_WITHOUT_A_CAUSE):
        schedule.go_on(40)


def test_where_a_member_has_fallen_silent_nothing_is_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    schedule, host = _joined()
    assert not_at_rest(schedule) is None
    _beats_no_more(monkeypatch, host)
    schedule.go_on(5)  # Too few for anybody to miss it.
    assert not_at_rest(schedule) == f"{host.name} has fallen silent"


def _world(beats: int, by: str = "b") -> ClusterWorld:
    """`a` has had a turn; since then there are so many beats."""
    world = ClusterWorld()
    world.has_its_turn("a")
    world.beats += [Beat(by, "b#1", seq, False, 0) for seq in range(beats)]
    world.now_ms = 12 * TICK_MS
    return world


def test_one_beat_less_than_makes_silent_is_enough() -> None:
    least = ClusterWorld().truth.policy.silent_after - 1
    assert _world(least).passed_over_ms("a", "b") == 12 * TICK_MS
    assert _world(least - 1).passed_over_ms("a", "b") == NEVER_MS


def test_only_beats_of_who_says_so_count() -> None:
    assert _world(20, by="c").passed_over_ms("a", "b") == NEVER_MS


def test_beats_before_and_after_a_turn_are_not_one_time() -> None:
    world = _world(3)
    world.has_its_turn("a")
    world.beats += [Beat("b", "b#1", seq, False, 0) for seq in range(3, 6)]
    assert world.passed_over_ms("a", "b") == NEVER_MS


def test_a_turn_in_which_nobody_can_beat_is_none() -> None:
    world = _world(3)
    world.beats_up = False
    world.has_its_turn("a")
    world.beats_up = True
    world.beats.append(Beat("b", "b#1", 3, False, 0))
    assert world.passed_over_ms("a", "b") == 12 * TICK_MS


def test_nor_is_one_in_which_it_has_not_read_the_log_for_so_long_that_it_is_silent_by_itself() -> None:
    """Log and beats were away, and are back; it reads the log in pieces, and others write to it."""
    world = _world(0)
    world.read_ends["a"] = world.now_ms = 100 * TICK_MS
    for seq in range(5):
        world.now_ms += UNFIT_MS // 4
        world.has_its_turn("a")
        world.beats.append(Beat("b", "b#1", seq, False, 0))
    assert world.passed_over_ms("a", "b") == NEVER_MS, "it could beat in four of them"
    for seq in range(5, 8):
        world.now_ms += TICK_MS
        world.has_its_turn("a")
        world.beats.append(Beat("b", "b#1", seq, False, 0))
    assert world.passed_over_ms("a", "b") == world.now_ms
    world.read_ends["a"] = world.now_ms
    world.has_its_turn("a")
    over_ms = world.now_ms
    world.now_ms += 5 * TICK_MS
    world.has_its_turn("a")
    assert world.passed_over_ms("a", "b") == over_ms


def test_an_outage_that_follows_makes_it_no_longer() -> None:
    world = _world(5)
    world.beats_up = False
    world.has_its_turn("a")
    world.now_ms += 300 * TICK_MS
    world.has_its_turn("a")
    world.beats_up = True
    world.has_its_turn("a")
    assert world.passed_over_ms("a", "b") == 12 * TICK_MS


def test_it_is_over_with_the_turn_that_it_gets_at_last() -> None:
    world = _world(5)
    world.has_its_turn("a")
    world.now_ms += 7 * TICK_MS
    assert world.passed_over_ms("a", "b") == 12 * TICK_MS
