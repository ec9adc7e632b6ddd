"""A wish that is in the cluster's log is seen there, whatever a broker shows first."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from kcontrol.apps.agent import looking
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.backoff import Deadline
from kcontrol.core.cluster.entries import ClusterEntry, KillJob, Prepare, RaiseLevel, SubmitJob
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import LATEST_LEVEL, Mark, TaskSpec
from kcontrol.errors import ClusterError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import agents_of
from kcontrol.wire.cluster import StampedEntry
from tests.support.patience import HANG_S
from tests.unit.core.cluster.made import joins

BEGUN: list[ClusterEntry] = [
    Prepare("a", "a-1", slots=1),
    SubmitJob("job", "r", 0, "p", (TaskSpec("nodes", 1, 1),)),
]


class OldAnswers:
    """A log of which its broker shows what was there some looks ago. late: so many, after each append."""

    late = 0

    def __init__(self, _settings: ClusterSettings) -> None:
        self.entries: list[ClusterEntry] = list(BEGUN)
        self.shown, self.old = 0, 0

    async def read_to_end(self) -> list[StampedEntry]:
        if self.old:
            self.old -= 1
            return []
        new = range(self.shown, len(self.entries))
        found = [StampedEntry(offset, self.entries[offset]) for offset in new]
        self.shown = len(self.entries)
        return found

    async def append(self, entry: ClusterEntry) -> int:
        self.entries.append(entry)
        self.old = self.late
        return len(self.entries) - 1

    async def close(self) -> None:
        pass


@pytest.fixture
def view(monkeypatch: pytest.MonkeyPatch) -> ClusterView:
    monkeypatch.setattr(looking, "KafkaClusterLog", OldAnswers)
    monkeypatch.setattr(looking, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(looking, "TIMEOUT_S", HANG_S)
    return ClusterView(ClusterSettings(bootstrap_servers="nowhere:1"))


def kill(view: ClusterView) -> str:
    made = asyncio.run(view.ask(lambda value, request: KillJob("job", request, value.offset)))
    return made.kind


def test_a_wish_is_seen_though_a_broker_that_was_deposed_does_not_show_it_at_first(
    view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OldAnswers, "late", 3)
    assert kill(view) == "KillJob"
    assert not view.replica.jobs["job"].active
    with pytest.raises(NotFoundError, match="it was not taken: no such job is active"):
        kill(view)


def test_who_is_shown_it_by_nobody_is_told_that_it_is_in_the_log(
    view: ClusterView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OldAnswers, "late", 1_000_000)
    monkeypatch.setattr(looking, "Deadline", lambda _timeout_ms: Deadline(0))
    with pytest.raises(ClusterError, match="entry 2 of the cluster's log, which has the wish"):
        kill(view)


def test_a_level_that_the_newest_entry_raises_beyond_what_is_known_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, view: ClusterView
) -> None:
    newer = LATEST_LEVEL + 1
    agent = Prepare("a", "a-1", slots=1, levels=(1, newer))
    monkeypatch.setattr(view._log, "entries", [agent, *(RaiseLevel(level) for level in range(2, newer + 1))])

    async def play() -> None:
        for _ in range(2):
            with pytest.raises(
                ClusterError, match=f"level is {newer}, and this version knows {LATEST_LEVEL}"
            ):
                await view.look()

    asyncio.run(play())


class ToldBeats:
    """Each look shows what was said since the last one."""

    def __init__(self, _settings: ClusterSettings) -> None:
        self.said: list[Beat] = []
        self.troubles: dict[str, object] = {}

    async def read_to_end(self, newest: bool = False) -> list[Beat]:
        assert newest
        said, self.said = self.said, []
        return said


def test_what_an_agent_has_said_is_known_until_it_says_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beats come more seldom than servers look."""
    monkeypatch.setattr(looking, "KafkaBeats", ToldBeats)
    monkeypatch.setattr(looking, "KafkaClusterLog", OldAnswers)
    view = ClusterView(ClusterSettings(bootstrap_servers="nowhere:1"))
    beats = cast(ToldBeats, view._beats)
    first, other, second = (Beat("a", f"a-{life}", seq, False, 0) for life, seq in ((1, 0), (0, 9), (1, 1)))

    async def play() -> None:
        beats.said = [first]
        for _ in range(2):
            assert (await view.seen()).beats == [first]
        beats.said = [other, Beat("b", "b-1", 0, False, 0)]
        assert (await view.seen()).beats == [first], "who is not known, or not any more, is not remembered"
        beats.said = [second]
        assert (await view.seen()).beats == [second]

    asyncio.run(play())


def test_agents_that_differ_are_seen_for_as_long_as_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "KafkaBeats", ToldBeats)
    monkeypatch.setattr(looking, "KafkaClusterLog", OldAnswers)
    view = ClusterView(ClusterSettings(bootstrap_servers="nowhere:1"))
    entries: list[ClusterEntry] = joins("ab")
    monkeypatch.setattr(view._log, "entries", entries)
    said = [Beat(name, f"{name}-1", 0, False, 3, Mark(3, name)) for name in "ab"]

    async def play() -> list[tuple[list[str], bool]]:
        found = []
        for beats in (said, [], [Beat("b", "b-1", 1, False, 3, Mark(3, "a"))]):
            cast(ToldBeats, view._beats).said = list(beats)
            seen = await view.seen()
            a = agents_of(seen)[0]
            found.append((a.differs_from, "another value of the log than b" in a.text))
        return found

    assert asyncio.run(play()) == [(["b"], True), (["b"], True), ([], False)]
