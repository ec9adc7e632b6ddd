"""Snapshots on a real broker: stored, confirmed, gone on from when the log was cut, and never taken when they are
not whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import uuid4

import pytest

from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog, LogCutError
from kcontrol.adapters.kafka.logs.cluster_snapshots import KafkaSnapshots
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.snapshots import SnapshotStore
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    ConfirmSnapshot,
    Drain,
    Prepare,
    ProposeSnapshot,
    SubmitJob,
)
from kcontrol.core.cluster.model import EMPTY, Mark, Replica, TaskSpec
from kcontrol.core.cluster.replica import apply
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.cluster_snapshot import snapshot_bytes

ENTRIES: list[ClusterEntry] = [
    Prepare("a", "a-1", slots=4, tags=("gpu",)),
    SubmitJob("j", "r", 0, "file:j.py", (TaskSpec("nodes", 2, 3), TaskSpec("none", 0, 1, ("ssd",)))),
    Drain("a", True),
    Drain("a", False),
]
AT = 2
"""The snapshot is of the value after this entry."""


class Cut:
    """A log with some entries, and the value at one of them."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self.log, self.snapshots = KafkaClusterLog(settings), KafkaSnapshots(settings)
        self.values: list[Replica] = []
        self.entries: list[ClusterEntry] = list(ENTRIES)

    @property
    def mark(self) -> Mark:
        return Mark(AT, digest(self.values[AT]))

    async def begin(self) -> None:
        value = EMPTY
        for entry in ENTRIES:
            value, _ = apply(value, await self.log.append(entry), entry)
            self.values.append(value)
        mark = ("a", "a-1", AT, self.mark.digest)
        confirming: list[ClusterEntry] = [ProposeSnapshot(*mark), ConfirmSnapshot(*mark)]
        for behind in confirming:
            value, _ = apply(value, await self.log.append(behind), behind)
            self.values.append(value)
            self.entries.append(behind)

    async def value(self) -> Replica:
        """As somebody sees it who looks now."""
        view = ClusterView(self.settings)
        try:
            return await view.look()
        finally:
            await view.close()

    async def write(self, *pairs: tuple[bytes, bytes]) -> None:
        writer = Appender(self.settings, self.settings.names().cluster_snapshots_topic(), 0)
        await writer.append(pairs)
        await writer.close()

    async def close(self) -> None:
        await self.log.close()
        await self.snapshots.close()


def play(settings: ClusterSettings, scenario: Callable[[Cut], Awaitable[None]]) -> None:
    own = settings.model_copy(update={"prefix": f"agents-{uuid4().hex[:6]}"})
    ensure_cluster_topics(own)

    async def run() -> None:
        cut = Cut(own)
        await cut.begin()
        try:
            await scenario(cut)
        finally:
            await cut.close()

    asyncio.run(run())


def test_who_comes_to_a_cut_goes_on_from_the_confirmed_snapshot(
    settings: ClusterSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In many parts.
    monkeypatch.setattr("kcontrol.wire.cluster_snapshot.PART_BYTES", 50)

    async def scenario(cut: Cut) -> None:
        store, slow = SnapshotStore(cut.log, cut.snapshots), KafkaClusterLog(cut.settings)
        slow.go_on_from(1)
        assert not await cut.snapshots.holds(cut.mark)
        await cut.snapshots.save(Mark(1, digest(cut.values[1])), cut.values[1])
        await cut.snapshots.save(cut.mark, cut.values[AT])
        confirmation = ConfirmSnapshot("b", "b-1", AT, cut.mark.digest)
        assert not store.may_be_said(confirmation, None)
        assert await store.prepare() == confirmation, "it was read"
        assert store.may_be_said(confirmation, None)
        assert await cut.snapshots.newest_confirmed() is None

        await store.cut(cut.mark)
        assert await cut.snapshots.newest_confirmed() == cut.values[AT]
        assert not await cut.snapshots.holds(Mark(1, digest(cut.values[1]))), "older ones are deleted"
        for late in (slow, KafkaClusterLog(cut.settings)):
            with pytest.raises(LogCutError, match="begins at offset 3"):
                await late.read_to_end()
            late.go_on_from(AT + 1)
            assert [one.entry for one in await late.read_to_end()] == cut.entries[AT + 1 :]
            await late.close()
        assert await cut.value() == cut.values[-1]

    play(settings, scenario)


@pytest.mark.parametrize("damage", ["a part is missing", "a part is damaged", "another value"])
def test_a_snapshot_that_can_not_be_read_is_neither_confirmed_nor_cut_before(
    settings: ClusterSettings, damage: str
) -> None:
    async def scenario(cut: Cut) -> None:
        data = snapshot_bytes(cut.values[AT - 1 if damage == "another value" else AT])
        half = len(data) // 2
        parts = [data[:half], data[half:] if damage != "a part is damaged" else bytes(len(data) - half)]
        key = f"{AT}/{cut.mark.digest}"
        wanted = parts[:1] if damage == "a part is missing" else parts
        await cut.write(
            (b"what nobody knows", b""), *((f"{key}/{n}/2".encode(), part) for n, part in enumerate(wanted))
        )
        store = SnapshotStore(cut.log, cut.snapshots)
        assert not store.may_be_said(ConfirmSnapshot("b", "b-1", AT, cut.mark.digest), None)
        assert await store.prepare() is None
        await store.cut(cut.mark)
        assert await cut.snapshots.newest_confirmed() is None
        assert await cut.value() == cut.values[-1]
        assert [one.offset for one in await cut.log.read_to_end()] == [0, 1, 2, 3, 4, 5], (
            "nothing was deleted"
        )

    play(settings, scenario)
