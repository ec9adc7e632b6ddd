"""How far input topics reach, asked from Kafka by whoever tells people what waits: who may
be dead need not have said it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from kcontrol.adapters.kafka.client.codes import LOOK_AGAIN, describe_code, verdict_of
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.client.partitions import Bound, Partitions
from kcontrol.adapters.kafka.client.protocol import topic_id_text
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.errors import AccessError, ClusterError, RetriableError, TopicError
from kcontrol.sessions.ports import Reach
from kcontrol.settings.cluster import ClusterSettings

KNOWN_S = 30.0
"""For so long a topic's partitions and leaders are taken for what they were, unless an answer says
otherwise."""


@dataclass
class _Look:
    """One round of questions. By topic: ends by partition, or why there are none."""

    ends: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    faults: dict[str, str] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)


class InputEnds:
    """Asks with one request for each broker, whatever the number of topics. Use from one task at a time."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._partitions = Partitions(KafkaRpc(settings))
        self._known: dict[str, tuple[float, TopicInfo]] = {}

    async def reaches(self, topics: Collection[str]) -> dict[str, Reach | str]:
        """As the port says."""
        look = await self._look(topics)
        if look.stale:
            for name in look.stale:
                self._known.pop(name, None)
            again = await self._look(look.stale)
            look.ends.update(again.ends)
            look.faults.update(again.faults)
        found: dict[str, Reach | str] = dict(look.faults)
        for name in topics:
            if name not in found:
                info, ends = self._known[name][1], look.ends[name]
                missing = [partition for partition in info.leaders if partition not in ends]
                found[name] = (
                    f"topic {name!r}, partition {missing[0]} has no leader that answers"
                    if missing
                    else Reach(
                        topic_id_text(info.topic_id), tuple(ends[partition] for partition in sorted(ends))
                    )
                )
        return found

    async def close(self) -> None:
        await self._partitions.rpc.close()

    async def _look(self, topics: Collection[str]) -> _Look:
        look = _Look()
        by_leader: dict[int, dict[str, list[int]]] = defaultdict(dict)
        for name in topics:
            try:
                info = await self._info(name)
            except (TopicError, AccessError) as error:
                look.faults[name] = str(error)
                continue
            led = info.led(info.leaders)
            for leader, partitions in led.by_node.items():
                by_leader[leader][name] = partitions
            if led.by_nobody:
                look.stale.add(name)
        for leader, wanted in by_leader.items():
            await self._ask(leader, wanted, look)
        return look

    async def _ask(self, leader: int, wanted: Mapping[str, list[int]], look: _Look) -> None:
        try:
            answer = await self._partitions.list_offsets(leader, wanted, Bound.LATEST)
        except RetriableError:
            look.stale.update(wanted)
            return
        for name, part in answer:
            if verdict_of(part.error_code) in LOOK_AGAIN:
                look.stale.add(name)
            elif part.error_code:
                look.faults[name] = self._fault(name, part.error_code)
            else:
                look.ends[name][part.partition] = part.offset

    def _fault(self, name: str, code: int) -> str:
        try:
            self._partitions.rpc.raise_if_denied(
                code, topic_right(name, Operation.DESCRIBE), "asking how far an input reaches"
            )
        except AccessError as error:
            return str(error)
        return f"topic {name!r}: {describe_code(code)}"

    async def _info(self, name: str) -> TopicInfo:
        known = self._known.get(name)
        if known is not None and time.monotonic() < known[0] + KNOWN_S:
            return known[1]
        self._partitions.forget(name)
        info = await self._partitions.topic(name, Operation.DESCRIBE)
        self._known[name] = (time.monotonic(), info)
        return info


async def input_reaches(settings: ClusterSettings, topics: Collection[str]) -> dict[str, Reach | str]:
    """Once. Never fails for them: what can't be asked is said as the reason."""
    ends = InputEnds(settings)
    try:
        return await ends.reaches(topics)
    except (RetriableError, ClusterError) as error:
        return dict.fromkeys(topics, str(error))
    finally:
        await ends.close()
