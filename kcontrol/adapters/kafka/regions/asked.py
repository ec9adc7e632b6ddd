"""The topic of regions: definitions and requests, written by people and read by controllers."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

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
    said_key,
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
        self._outlived: dict[tuple[str, str], set[str]] = {}
        """By region and participant: under which processes its older lives have spoken."""
        self._pods: dict[str, PodsSaid] = {}
        self._beginning = asyncio.Lock()

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
                self._hear(ParticipantSaid(record.offset, found))
            elif isinstance(found, RegionPods):
                self._pods[found.region] = PodsSaid(record.offset, found)

    def _hear(self, said: ParticipantSaid) -> None:
        region, member = said.word.region, said.word.member
        words, outlived = (
            self._said.setdefault(region, {}),
            self._outlived.setdefault((region, member), set()),
        )
        before = words.get(member)
        newest = newest_said(before, said)
        for one in (before, said):
            if one is not None and newest is not None and one.word.process != newest.word.process:
                outlived.add(one.word.process)
        if newest is not None:
            words[member] = newest
            outlived.discard(newest.word.process)

    def _forget(self, key: str) -> None:
        """What was asked of a region that was deleted is not asked of the next of its name."""
        name = key.partition("/")[0]
        if key == definition_key(name):
            self.definitions.pop(name, None)
            self._defined.append((name, None))
        _, _, said = key.partition("/member/")
        member, _, process = said.partition("/")
        self._outlived.get((name, member), set()).discard(process)
        if key in (definition_key(name), pods_key(name)):
            self._pods.pop(name, None)
        for kind in RegionRequestKind:
            if key in (definition_key(name), request_key(name, kind)):
                self._requests.pop((name, kind), None)

    async def ask(self, record: RegionAsked) -> int:
        """Its offset. Raises RetriableError: it may or may not have been written. TopicError, AccessError."""
        gone: Sequence[str] = ()
        if isinstance(record, RegionSaid) and record.life < 0:
            async with self._beginning:
                await self.look()
            gone = self._gone_with(record)
        offset, *_ = await self._appender.append(
            [region_pair(record), *((key.encode(), None) for key in gone)]
        )
        return offset

    def _gone_with(self, joins: RegionSaid) -> list[str]:
        """Keys of what the lives of a participant said that are over once this one begins: compaction would keep them."""
        region, member = joins.region, joins.member
        newest = self._said.get(region, {}).get(member)
        processes = {*self._outlived.get((region, member), ()), *([newest.word.process] if newest else [])}
        return [said_key(region, member, process) for process in sorted(processes - {joins.process})]

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
