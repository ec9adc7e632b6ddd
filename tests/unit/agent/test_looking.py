"""A wish that is in the cluster's log is seen there, whatever a broker shows first."""

from __future__ import annotations

import asyncio

import pytest

from kcontrol.apps.agent import looking
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.backoff import Deadline
from kcontrol.core.cluster.entries import ClusterEntry, KillJob, Prepare, RaiseLevel, SubmitJob
from kcontrol.core.cluster.model import LATEST_LEVEL, TaskSpec
from kcontrol.errors import ClusterError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.cluster import StampedEntry
from tests.support.patience import HANG_S

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
