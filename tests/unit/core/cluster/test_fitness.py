"""An agent that can't do its work falls silent, though all else of it goes on: whichever way to Kafka has failed, and
though what is told is old."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.cluster.entries import ClusterEntry, DrainAgent, Leave
from kcontrol.core.cluster.liveness import Beat
from tests.unit.core.cluster.test_agent import LIMITS, Alone

BEAT_MS = 2_000


def member() -> Alone:
    alone = Alone()
    alone.join()
    return alone


def beats_unheard(alone: Alone, count: int) -> int:
    """How many of so many beats it makes, none of which comes back to it, while it reads the log."""
    made = 0
    for _ in range(count):
        alone.pass_ms(BEAT_MS)
        alone.read()
        if alone.machine.beat(alone.now_ms) is not None:
            alone.machine.beat_sent(alone.now_ms)
            made += 1
    return made


def test_who_does_not_hear_its_own_beats_falls_silent_and_tries_again_after_a_while() -> None:
    alone = member()
    most = LIMITS.unfit_ms // BEAT_MS + 2
    assert 1 < beats_unheard(alone, 20) <= most
    assert beats_unheard(alone, 10) == 0, "whom it watches could die, and it would not see it"
    alone.pass_ms(3 * LIMITS.unfit_ms)
    assert 1 < beats_unheard(alone, 20) <= most, "it can't tell without a beat whether it is heard again"


def test_who_hears_its_own_beats_late_goes_on() -> None:
    alone = member()
    for _ in range(30):
        assert beats_unheard(alone, 4) == 4
        alone.pass_ms(BEAT_MS)
        alone.read()
        assert alone.beat() is not None


def test_kafka_that_takes_no_beats_makes_nobody_deaf() -> None:
    alone = member()
    for _ in range(40):
        alone.pass_ms(BEAT_MS)
        alone.read()
        assert alone.machine.beat(alone.now_ms) is not None, "nobody has taken it"


def others(alone: Alone, applied: int, names: str = "b") -> None:
    alone.machine.hear(*(Beat(name, f"{name}-1", 0, False, applied) for name in names))


def knowing(names: str) -> Alone:
    """With these as agents that the value knows."""
    alone = member()
    value = alone.machine.replica
    known = {name: replace(value.agents["a"], name=name, incarnation=f"{name}-1") for name in names}
    alone.machine.replica = value.but(agents={**value.agents, **known})
    return alone


def goes_on(alone: Alone, for_ms: int) -> None:
    """It reads the log, and is told of nothing new; its beats come back."""
    for _ in range(for_ms // BEAT_MS):
        alone.pass_ms(BEAT_MS)
        alone.read()
        alone.beat()


def test_who_is_told_an_old_end_of_the_log_neither_writes_nor_starts_and_falls_silent() -> None:
    alone = knowing("bcd")
    offset = alone.machine.replica.offset
    others(alone, offset + 3, "bcd")
    goes_on(alone, alone.machine.late_ms)
    assert alone.machine.up_to_date(alone.now_ms)
    goes_on(alone, 2 * BEAT_MS)
    alone.machine.leave("asked to")
    assert not alone.machine.up_to_date(alone.now_ms)
    assert alone.speak() is None
    goes_on(alone, LIMITS.unfit_ms)
    alone.pass_ms(BEAT_MS)
    assert alone.machine.beat(alone.now_ms) is None
    more: list[ClusterEntry] = [DrainAgent("x", True, 0)] * 3
    alone.log += more
    alone.read()
    assert alone.machine.beat(alone.now_ms) is not None
    assert isinstance(alone.speak(), Leave)


def test_one_that_says_it_has_read_more_than_there_is_silences_nobody() -> None:
    alone = knowing("bcd")
    offset = alone.machine.replica.offset
    others(alone, offset, "bc")
    others(alone, 10**9, "d")
    goes_on(alone, 10 * LIMITS.unfit_ms)
    assert alone.machine.beat(alone.now_ms + BEAT_MS) is not None


def test_who_is_not_known_may_have_read_another_log() -> None:
    alone = member()
    others(alone, 10**9, "xyz")
    goes_on(alone, 10 * LIMITS.unfit_ms)
    assert alone.machine.beat(alone.now_ms + BEAT_MS) is not None
