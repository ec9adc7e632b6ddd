"""How far rows that follow from an address reach, and what is there of them: all that are due, for ever."""

from __future__ import annotations

from collections.abc import Collection

from kcontrol.core.model import InputSpec
from kcontrol.errors import ConfigurationError
from kcontrol.sessions.ports import Held, Kept, Reach, RecordLook
from kcontrol.wire.addresses import ROWS_ID, address_of, is_topic
from kcontrol.wire.files import is_files


def generated_reaches(topics: Collection[str], at_ms: int) -> dict[str, Reach | str]:
    """Of those that are addresses of such rows; or why it is not known, in words."""
    found: dict[str, Reach | str] = {}
    for topic in topics:
        if not is_topic(topic) and not is_files(topic):
            try:
                found[topic] = Reach(ROWS_ID, address_of(topic).ends(at_ms))
            except ConfigurationError as error:
                found[topic] = str(error)
    return found


def generated_kept(topics: Collection[str], at_ms: int) -> dict[str, Kept | str]:
    """The same of what is there."""
    return {
        topic: reach if isinstance(reach, str) else Kept(reach.topic_id, (0,) * len(reach.ends), None, -1, -1)
        for topic, reach in generated_reaches(topics, at_ms).items()
    }


class AnyRecordLook:
    """The RecordLook port for inputs of each kind: of an address every offset holds a row."""

    def __init__(self, kafka: RecordLook) -> None:
        self._kafka = kafka

    async def holds(self, item: InputSpec, partition: int, offset: int) -> Held | str:
        """As the port says."""
        return await self._kafka.holds(item, partition, offset) if is_topic(item.topic) else Held.RECORD

    async def records(self, item: InputSpec, partition: int, from_: int, to: int) -> int | str:
        """As the port says."""
        return await self._kafka.records(item, partition, from_, to) if is_topic(item.topic) else to - from_
