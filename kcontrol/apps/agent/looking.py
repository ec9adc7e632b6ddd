"""The cluster as anybody sees it who reads its log to the end, and wishes about jobs, which are written
there."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.logs.cluster_log import (
    OF_ANOTHER_LOG,
    KafkaBeats,
    KafkaClusterLog,
    LogCutError,
)
from kcontrol.adapters.kafka.logs.cluster_snapshots import KafkaSnapshots
from kcontrol.backoff import Deadline
from kcontrol.core.cluster.diff import diff
from kcontrol.core.cluster.differing import HeardMarks
from kcontrol.core.cluster.duties import lives
from kcontrol.core.cluster.entries import ClusterEntry, TaskFailed
from kcontrol.core.cluster.liveness import Beat, Who
from kcontrol.core.cluster.model import EMPTY, LATEST_LEVEL, Replica
from kcontrol.core.cluster.replica import apply
from kcontrol.errors import ClusterError, NotFoundError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import ClusterSeen, LoggedEntry
from kcontrol.wire.cluster import StampedEntry

TIMEOUT_S = 20.0
LOOK_EVERY_S = 0.2
MAX_ENTRIES = 10_000

Wish = Callable[[Replica, str], ClusterEntry]
"""The entry that asks for something, as of a value, under the name of a request."""


def logged(one: StampedEntry, entry: ClusterEntry, rejection: str, changes: tuple[str, ...]) -> LoggedEntry:
    """An entry as it is shown."""
    seen = LoggedEntry(one.offset, one.at_ms, type(entry).__name__, rejection, changes)
    if not isinstance(entry, TaskFailed):
        return seen
    about = f"{entry.job}/{entry.task}/{entry.index} can't run on {entry.agent}: {entry.error}"
    return replace(seen, changes=(about, *changes), job=entry.job, error=entry.error)


class ClusterView:
    """A replica that is no agent's."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings
        self._log = KafkaClusterLog(settings)
        self._beats = KafkaBeats(settings)
        self._snapshots = KafkaSnapshots(settings)
        self.replica = EMPTY
        self._newest: dict[Who, Beat] = {}
        self._marks = HeardMarks()
        self._restored = -1
        self.entries: deque[LoggedEntry] = deque(maxlen=MAX_ENTRIES)
        """The newest."""

    async def close(self) -> None:
        await self._log.close()
        await self._beats.close()
        await self._snapshots.close()

    async def exists(self) -> bool:
        """Whether there ever was an agent under this prefix. Raises ClusterError."""
        topic = self.settings.names().cluster_topic()
        return await asyncio.to_thread(lambda: TopicAdmin(self.settings).find(topic) is not None)

    async def look(self) -> Replica:
        """The value at the end of the log. Raises ClusterError if Kafka does not answer, or the value is of a
        level that this version does not know."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                found = await self._read()
        except (RetriableError, TimeoutError) as error:
            raise ClusterError(f"the cluster's log can't be read: {error or 'no answer'}") from error
        for one in found:
            self._check_level()
            if one.entry is None:
                self.entries.append(
                    LoggedEntry(one.offset, one.at_ms, "unreadable", "nobody can read it", ())
                )
                continue
            before = self.replica
            self.replica, why = apply(before, one.offset, one.entry)
            self.entries.append(logged(one, one.entry, why, diff(before, self.replica)))
        self._check_level()
        if self.replica.base.offset < self._restored:
            raise ClusterError(OF_ANOTHER_LOG.format(self._restored))
        return self.replica

    def _check_level(self) -> None:
        """Before an entry is applied, and once more after the last of them."""
        if self.replica.level > LATEST_LEVEL:
            raise ClusterError(
                f"the cluster's level is {self.replica.level}, and this version knows {LATEST_LEVEL}: install a newer one"
            )

    async def _read(self) -> list[StampedEntry]:
        try:
            return await self._log.read_to_end()
        except LogCutError as cut:
            replica = await self._snapshots.newest_confirmed()
            if replica is None or not cut.is_bridged_by(replica, self.replica):
                raise ClusterError(
                    f"{cut}, and there is no snapshot that this version can read: install a newer one"
                ) from cut
            self.replica, self._restored = replica, replica.offset
            self._log.go_on_from(replica.offset + 1)
            return await self._log.read_to_end()

    async def seen(self) -> ClusterSeen:
        """The value at the end of the log, and what its agents have said of themselves lately: of each that is known the
        newest. Raises as `look`, and RetriableError."""
        known = lives(await self.look())
        beats = await self._beats.read_to_end(newest=True)
        self._marks.hear(beats)
        newest = self._newest | {(beat.agent, beat.incarnation): beat for beat in beats}
        self._newest = {who: beat for who, beat in newest.items() if who in known}
        heard = [self._newest[who] for who in sorted(self._newest)]
        troubles = tuple(self._beats.troubles.values())
        return ClusterSeen(self.replica, heard, tuple(self.entries), troubles, self._marks.differing(known))

    async def ask(self, wish: Wish) -> LoggedEntry:
        """Write a wish as of the end of the log, and see what became of it. Raises NotFoundError with the
        reason if it was rejected."""
        await self.look()
        if not self.replica.agents:
            raise NotFoundError("the cluster has no agents: start `kcontrol agent` on a host")
        entry = wish(self.replica, uuid4().hex)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                offset = await self._log.append(entry)
        except (RetriableError, TimeoutError) as error:
            raise ClusterError(
                f"the wish may or may not be in the cluster's log: {error or 'no answer'}; ask again, which does no harm"
            ) from error
        made = await self._seen(offset)
        if made.rejection:
            raise NotFoundError(f"it was not taken: {made.rejection}")
        return made

    async def _seen(self, offset: int) -> LoggedEntry:
        """What became of an entry that was acknowledged; a broker that was deposed does not show it for a while."""
        deadline = Deadline(TIMEOUT_S * 1000)
        while (await self.look()).offset < offset:
            deadline.check(
                f"reading entry {offset} of the cluster's log, which has the wish,", kind=ClusterError
            )
            await asyncio.sleep(LOOK_EVERY_S)
        made = next((one for one in self.entries if one.offset == offset), None)
        if made is None:
            raise ClusterError(
                "the wish is in the cluster's log; what became of it was cut off with a snapshot"
            )
        return made
