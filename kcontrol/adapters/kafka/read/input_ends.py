"""How far input topics reach, asked from Kafka by whoever tells people what waits: who may be dead need not have said it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from aiokafka.protocol.offset import OffsetRequest

from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, topic_id_text
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import KafkaRpc, TopicInfo, describe_code
from kcontrol.core.model import PipelineSpec
from kcontrol.errors import AccessError, ClusterError, RetriableError, TopicError
from kcontrol.sessions.ports import Reach
from kcontrol.settings.cluster import ClusterSettings

KNOWN_S = 30.0
"""For so long a topic's partitions and leaders are taken for what they were, unless an answer says otherwise."""

_LATEST = -1
_CONSUMER = -1
_STALE = frozenset({3, 5, 6, 9, 74, 75, 76, 78, 100})
"""Another leader or another topic: it must be looked at anew."""


@dataclass
class _Look:
    """One round of questions. By topic: ends by partition, or why there are none."""

    ends: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    faults: dict[str, str] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)


class InputEnds:
    """Asks with one request for each broker, whatever the number of topics. Use from one task at a time."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._rpc = KafkaRpc(settings)
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
                    else Reach(topic_id_text(info.topic_id), tuple(ends[partition] for partition in sorted(ends)))
                )
        return found

    async def close(self) -> None:
        await self._rpc.close()

    async def _look(self, topics: Collection[str]) -> _Look:
        look = _Look()
        by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for name in topics:
            try:
                info = await self._info(name)
            except (TopicError, AccessError) as error:
                look.faults[name] = str(error)
                continue
            for partition, leader in info.leaders.items():
                if leader >= 0:
                    by_leader[leader][name].append(partition)
                else:
                    look.stale.add(name)
        for leader, wanted in by_leader.items():
            await self._ask(leader, wanted, look)
        return look

    async def _ask(self, leader: int, wanted: Mapping[str, list[int]], look: _Look) -> None:
        asked = [(name, [(partition, _LATEST) for partition in partitions]) for name, partitions in wanted.items()]
        try:
            answer = await self._rpc.send(leader, OffsetRequest(_CONSUMER, READ_COMMITTED, asked))
        except RetriableError:
            look.stale.update(wanted)
            return
        for name, partitions in answer.topics:
            for partition, code, _, offset in partitions:
                if code in _STALE:
                    look.stale.add(name)
                elif code:
                    look.faults[name] = self._fault(name, code)
                else:
                    look.ends[name][partition] = offset

    def _fault(self, name: str, code: int) -> str:
        try:
            self._rpc.raise_if_denied(code, topic_right(name, Operation.DESCRIBE), "asking how far an input reaches")
        except AccessError as error:
            return str(error)
        return f"topic {name!r}: {describe_code(code)}"

    async def _info(self, name: str) -> TopicInfo:
        known = self._known.get(name)
        if known is not None and time.monotonic() < known[0] + KNOWN_S:
            return known[1]
        info = await self._rpc.topic(name, Operation.DESCRIBE)
        self._known[name] = (time.monotonic(), info)
        return info


async def input_reaches(settings: ClusterSettings, spec: PipelineSpec) -> dict[str, Reach | str]:
    """Of all inputs of a pipeline, once. Never fails for them: what can't be asked is said as the reason."""
    topics = {item.topic for item in spec.inputs}
    ends = InputEnds(settings)
    try:
        return await ends.reaches(topics)
    except (RetriableError, ClusterError) as error:
        return dict.fromkeys(topics, str(error))
    finally:
        await ends.close()
