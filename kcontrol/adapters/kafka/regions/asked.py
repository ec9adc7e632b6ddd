"""The topic of regions: definitions and requests, written by people and read by controllers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.core.regions.participants import ParticipantSaid, newest_said
from kcontrol.core.regions.pods import PodsSaid
from kcontrol.core.regions.records import (
    RegionAsked,
    RegionDefinition,
    RegionPods,
    RegionRequest,
    RegionRequestKind,
    RegionSaid,
    definition_key,
    pods_key,
    request_key,
)
from kcontrol.errors import DamagedRecordError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.regions import region_pair, region_record

_log = logging.getLogger(__name__)

_REMEMBERED = 10_000
"""Definitions of all regions, until somebody takes note of them."""


class KafkaAskedRegions:
    """What is wanted of regions, as far as it was read. What can't be read is left out, and said once: people put it
    there, and no bytes are to stop a controller."""

    def __init__(self, settings: ClusterSettings) -> None:
        topic = settings.names().regions_topic()
        self._settings, self._topic = settings, topic
        self._rpc = KafkaRpc(settings)
        self._reader = PartitionReader(self._rpc, topic, 0, READ_UNCOMMITTED)
        self._appender = Appender(settings, topic, 0)
        self.definitions: dict[str, RegionDefinition] = {}
        self._defined: deque[tuple[str, RegionDefinition | None]] = deque(maxlen=_REMEMBERED)
        self._requests: dict[tuple[str, RegionRequestKind], RegionRequest] = {}
        self._said: dict[str, dict[str, ParticipantSaid]] = {}
        self._pods: dict[str, PodsSaid] = {}

    def requests(self, region: str) -> dict[RegionRequestKind, RegionRequest]:
        """The newest of each kind."""
        return {kind: request for (name, kind), request in self._requests.items() if name == region}

    def said(self, region: str) -> dict[str, ParticipantSaid]:
        """By participant, the newest word of its newest life."""
        return dict(self._said.get(region, {}))

    def pods(self, region: str) -> PodsSaid | None:
        """The newest word of its pipelines' pods, however old; None: nobody has ever said any."""
        return self._pods.get(region)

    def take_defined(self) -> list[tuple[str, RegionDefinition | None]]:
        """What was defined since this was asked last, in the order of the topic, by region; None: it was deleted."""
        found = list(self._defined)
        self._defined.clear()
        return found

    async def exists(self) -> bool:
        """Whether there ever was a region under this prefix. Raises ClusterError."""
        return await asyncio.to_thread(lambda: TopicAdmin(self._settings).find(self._topic) is not None)

    async def look(self) -> None:
        """Read on to the end. Raises RetriableError, TopicError: there is no such topic, AccessError."""
        for record in await self._reader.read_to_end():
            key = (record.key or b"").decode(errors="replace")
            if record.value is None:
                self._forget(key)
                continue
            try:
                found = region_record(record.value, f"topic {self._topic!r}, offset {record.offset}")
            except DamagedRecordError as error:
                _log.warning("Left out: %s", error)
                continue
            if isinstance(found, RegionDefinition):
                self.definitions[found.region] = found
                self._defined.append((found.region, found))
            elif isinstance(found, RegionRequest):
                self._requests[found.region, found.kind] = found
            elif isinstance(found, RegionSaid):
                words = self._said.setdefault(found.region, {})
                newest = newest_said(words.get(found.member), ParticipantSaid(record.offset, found))
                if newest is not None:
                    words[found.member] = newest
            elif isinstance(found, RegionPods):
                self._pods[found.region] = PodsSaid(record.offset, found)

    def _forget(self, key: str) -> None:
        """What was asked of a region that was deleted is not asked of the next of its name."""
        name = key.partition("/")[0]
        if key == definition_key(name):
            self.definitions.pop(name, None)
            self._defined.append((name, None))
        if key in (definition_key(name), pods_key(name)):
            self._pods.pop(name, None)
        for kind in RegionRequestKind:
            if key in (definition_key(name), request_key(name, kind)):
                self._requests.pop((name, kind), None)

    async def ask(self, record: RegionAsked) -> int:
        """Its offset. Raises RetriableError: it may or may not have been written. TopicError, AccessError."""
        (offset,) = await self._appender.append([region_pair(record)])
        return offset

    async def forget(self, region: str) -> None:
        """There is no such region any more, nor what was asked of it: compaction may remove the tombstone of one key long
        before that of another. Raises as `ask`."""
        keys = (
            definition_key(region),
            pods_key(region),
            *(request_key(region, kind) for kind in RegionRequestKind),
        )
        await self._appender.append([(key.encode(), None) for key in keys])

    async def close(self) -> None:
        await self._appender.close()
        await self._rpc.close()
