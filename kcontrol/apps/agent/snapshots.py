"""An agent's part in snapshots: what it proposes is stored, what it confirms was read, and what is cut is in one
that can be read.

A snapshot that can't be stored or read is no trouble of the agent's: the log stays as it is, and its turn comes
again.
"""

from __future__ import annotations

import asyncio
import logging

from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.adapters.kafka.logs.cluster_snapshots import KafkaSnapshots
from kcontrol.core.cluster.agent import SavedReplica
from kcontrol.core.cluster.entries import ClusterEntry, ConfirmSnapshot, ProposeSnapshot
from kcontrol.core.cluster.model import Mark, Replica
from kcontrol.errors import KcontrolError

_log = logging.getLogger("kcontrol.agent")

TIMEOUT_S = 60.0
"""For all that is to be read or written of one snapshot."""


class SnapshotStore:
    """Of one agent."""

    def __init__(self, log: KafkaClusterLog, snapshots: KafkaSnapshots) -> None:
        self._log, self._snapshots = log, snapshots
        self._cut_at = Mark()
        self._wanted: tuple[ProposeSnapshot | ConfirmSnapshot, SavedReplica | None] | None = None
        self._prepared: ProposeSnapshot | ConfirmSnapshot | None = None

    async def newest(self) -> Replica | None:
        """The newest that was confirmed. Raises what KafkaSnapshots raises, and TimeoutError."""
        async with asyncio.timeout(TIMEOUT_S):
            return await self._snapshots.newest_confirmed()

    def may_be_said(self, entry: ClusterEntry, saved: SavedReplica | None) -> bool:
        """Whether an entry is true of what is stored. If that is not known yet, `prepare` does its part."""
        if not isinstance(entry, ProposeSnapshot | ConfirmSnapshot):
            return True
        if entry == self._prepared:
            self._prepared = None
            return True
        self._wanted = (entry, saved)
        return False

    async def prepare(self) -> ClusterEntry | None:
        """What may be said now that could not be before. A snapshot that is not to be stored or read is wanted again later."""
        wanted, self._wanted = self._wanted, None
        if wanted is None or not await self._is_true(*wanted):
            return None
        self._prepared = wanted[0]
        return self._prepared

    async def _is_true(self, entry: ProposeSnapshot | ConfirmSnapshot, saved: SavedReplica | None) -> bool:
        what = "storing" if isinstance(entry, ProposeSnapshot) else "reading"
        try:
            async with asyncio.timeout(TIMEOUT_S):
                if isinstance(entry, ConfirmSnapshot):
                    return await self._snapshots.holds(Mark(entry.offset, entry.digest))
                if saved is None or saved.offset != entry.offset:
                    return False
                await self._snapshots.save(Mark(saved.offset, saved.digest), saved.replica)
                return True
        except (KcontrolError, TimeoutError, ValueError) as error:
            _log.warning("%s the snapshot at %d: %s", what, entry.offset, error or "no answer")
            return False

    async def cut(self, base: Mark) -> None:
        """Cut the log before a snapshot that was confirmed, once. Where that can't be done the log stays, and the
        next snapshot's turn comes.

        Between any two of these acts this process may stand still for as long as it likes, while others cut further, or the
        topics are deleted and made anew under their names.
        """
        if base.offset <= self._cut_at.offset:
            return
        self._cut_at = base
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self._log.check()
                needless = await self._snapshots.confirm(base)
                if needless is None:
                    return
                await needless.delete()
                newest = await self._snapshots.newest_confirmed()
                if newest is not None and newest.offset >= base.offset:
                    await self._log.delete_before(base.offset + 1)
                    _log.info("the cluster's log was cut up to offset %d", base.offset)
        except (KcontrolError, TimeoutError) as error:
            _log.warning(
                "cutting the cluster's log before its snapshot at %d: %s", base.offset, error or "no answer"
            )
