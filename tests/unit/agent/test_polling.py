"""An agent looks at the log and at beats as often as the policy in force asks for, so that whoever dies is missed.

The agent's own session runs, in virtual time, against a Kafka of which every answer takes a while.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.core.cluster.entries import ClusterEntry, Configure, Leave
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import ClusterPolicy
from kcontrol.requests.policies import SHORTEST_BEAT_MS
from kcontrol.wire.cluster import StampedEntry
from tests.simulation.sessions.loop import SeededLoop
from tests.unit.agent.session import Beats, Log, Session
from tests.unit.core.cluster.made import joins

POLICY = ClusterPolicy(coordinators=0)


class SlowLog(Log):
    """What is written is there once that was answered."""

    def __init__(self, entries: list[ClusterEntry], answer_ms: int) -> None:
        super().__init__(entries)
        self._answer_s = answer_ms / 1000

    async def read_to_end(self) -> list[StampedEntry]:
        found = await super().read_to_end()
        await asyncio.sleep(self._answer_s)
        return found

    async def append(self, entry: ClusterEntry) -> None:
        await asyncio.sleep(self._answer_s)
        self.entries.append(entry)


class SlowBeats(Beats):
    def __init__(self, answer_ms: int) -> None:
        super().__init__()
        self._answer_s = answer_ms / 1000

    async def append(self, beat: Beat) -> None:
        await asyncio.sleep(self._answer_s)
        await super().append(beat)

    async def read_to_end(self) -> list[Beat]:
        found = await super().read_to_end()
        await asyncio.sleep(self._answer_s)
        return found


class NoSnapshots:
    def may_be_said(self, *_: object) -> bool:
        return True

    async def prepare(self) -> None:
        pass

    async def cut(self, _base: object) -> None:
        pass


class LoopClock(SystemClock):
    """Which goes on from now as the loop's time does."""

    def __init__(self, loop: SeededLoop) -> None:
        self._loop, self._begun_ms = loop, super().monotonic_ms()

    def monotonic_ms(self) -> int:
        return self._begun_ms + round(self._loop.time() * 1000)


def is_missed(folder: Path, policy: ClusterPolicy, answer_ms: int) -> bool:
    """Whether `a` says that `b` is gone, of which it never hears anything, within eight times as long as that takes."""
    log = SlowLog([Configure(policy), *joins("ab")], answer_ms)
    loop = SeededLoop(Random(0), 0.0)

    def is_said() -> bool:
        return any(isinstance(entry, Leave) for entry in log.entries)

    with Session(folder, log, SessionOptions(), store=NoSnapshots()) as one:
        one.session._clock = LoopClock(loop)
        one.session._beats = cast(Any, SlowBeats(answer_ms))
        loop.create_task(one.session.run())
        loop.run_while(lambda: not is_said(), 10 + 8 * policy.silent_after * policy.beat_ms / 1000)
        loop.end()
    return is_said()


@pytest.mark.parametrize("beat_ms", [100, 125, SHORTEST_BEAT_MS, 500, POLICY.beat_ms])
def test_who_is_dead_is_missed_however_short_the_time_between_two_beats(tmp_path: Path, beat_ms: int) -> None:
    """Also by policies that were accepted once and would not be today."""
    assert is_missed(tmp_path, replace(POLICY, beat_ms=beat_ms), answer_ms=beat_ms // 2)


def test_nobody_is_missed_where_each_answer_is_late(tmp_path: Path) -> None:
    """Which says what the shortest time between two beats must leave room for."""
    policy = replace(POLICY, beat_ms=SHORTEST_BEAT_MS)
    assert not is_missed(tmp_path, policy, answer_ms=4 * SHORTEST_BEAT_MS)


@pytest.mark.parametrize(
    ("beat_ms", "pause_ms"), [(1, 25), (100, 25), (200, 50), (2_000, 500), (60_000, 500)]
)
def test_the_log_and_beats_are_looked_at_four_times_between_two_beats(
    tmp_path: Path, beat_ms: int, pause_ms: int
) -> None:
    with Session(tmp_path, Log(), SessionOptions()) as one:
        one.machine.read(0, Configure(replace(POLICY, beat_ms=beat_ms)))
        assert one.session._pause_ms(True) == pause_ms
        assert one.session._pause_ms(False) == SessionOptions().poll_ms
