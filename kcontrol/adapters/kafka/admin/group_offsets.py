"""Offsets that consumer groups keep, with a text beside each, read and written by who is no member.

Over our own connections: the administration of librdkafka (2.16) ends the whole process, by a failed assertion or a null
pointer, when the coordinator of a group answers it late, has only just started, or is another broker by then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from aiokafka.protocol.admin import ListGroupsRequest
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest

from kcontrol.adapters.kafka.admin.groups import USUAL_MS
from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.client.codes import describe_code
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import group as group_right
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.errors import ClusterError, RetriableError
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger(__name__)

TIMEOUT_MS = 10_000
"""So long a coordinator that is not ready is asked again."""
MOST_MS = 2 * TIMEOUT_MS
"""A call takes no longer, whatever brokers do."""
AT_ONCE = 100
"""Groups that are read at a time."""
_PARTITION = 0
_NO_GENERATION, _NO_MEMBER, _AS_LONG_AS_USUAL = -1, "", -1

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class KeptOffset:
    """An offset, and what is written beside it."""

    offset: int
    text: str


class GroupOffsets:
    """Of one partition of a topic, its first. Blocking, from any thread but that of the connections.

    All methods raise ClusterError when Kafka does not answer or does not take it, AccessError when it does not allow it.
    """

    def __init__(self, settings: ClusterSettings, topic: str) -> None:
        self._settings, self._topic = settings, topic

    def groups(self, beginning: str) -> list[str]:
        """The names of all groups that begin so, as far as this client may see them, in order. A broker that does not answer
        is passed over while another does: its groups go to others."""

        async def ask(rpc: KafkaRpc) -> list[str]:
            answers = await asyncio.gather(
                *(_groups(rpc, node) for node in await rpc.nodes()), return_exceptions=True
            )
            wrong = [each for each in answers if isinstance(each, BaseException)]
            if len(wrong) == len(answers) and wrong:
                raise wrong[0]
            told = {name for each in answers if not isinstance(each, BaseException) for name in each}
            return sorted(name for name in told if name.startswith(beginning))

        return self._asked(ask, f"groups {beginning}*")

    def read(self, group: str) -> KeptOffset | None:
        """None: nothing is kept. Old, perhaps, as a broker may answer that has coordinated the group before."""
        return self._asked(lambda rpc: self._read(rpc, group), f"group {group!r}")

    def read_all(self, groups: Sequence[str]) -> list[KeptOffset | None]:
        """What `read` says of each. AT_ONCE of them are asked for together, and these take no longer than one call."""
        found: list[KeptOffset | None] = []
        for first in range(0, len(groups), AT_ONCE):
            asked = groups[first : first + AT_ONCE]
            found += self._asked(
                partial(self._read_together, asked), f"{len(asked)} groups from {asked[0]!r}"
            )
        return found

    def write(self, group: str, kept: KeptOffset) -> None:
        """In place of what was there. The group must have no members."""

        async def ask(rpc: KafkaRpc) -> None:
            node = await rpc.group_coordinator(group)
            place = [(self._topic, [(_PARTITION, kept.offset, kept.text)])]
            answer = await rpc.send(
                node, OffsetCommitRequest(group, _NO_GENERATION, _NO_MEMBER, _AS_LONG_AS_USUAL, place)
            )
            for _, partitions in answer.topics:
                for _, code in partitions:
                    _raise_if(rpc, group, code, Operation.READ)

        self._asked(ask, f"group {group!r}")

    async def _read_together(self, groups: Sequence[str], rpc: KafkaRpc) -> list[KeptOffset | None]:
        answers = await asyncio.gather(*(self._read(rpc, group) for group in groups), return_exceptions=True)
        wrong = [each for each in answers if isinstance(each, BaseException)]
        if wrong:
            # What asking again does not mend comes first.
            raise min(wrong, key=lambda each: isinstance(each, RetriableError))
        return [each for each in answers if not isinstance(each, BaseException)]

    async def _read(self, rpc: KafkaRpc, group: str) -> KeptOffset | None:
        node = await rpc.group_coordinator(group)
        answer = await rpc.send(node, OffsetFetchRequest(group, [(self._topic, [_PARTITION])]))
        _raise_if(rpc, group, answer.error_code, Operation.DESCRIBE)
        for _, partitions in answer.topics:
            for _, offset, text, code in partitions:
                _raise_if(rpc, group, code, Operation.DESCRIBE)
                # librdkafka ends what it writes as C does.
                return KeptOffset(offset, (text or "").removesuffix("\0")) if offset >= 0 else None
        return None

    def _asked(self, ask: Callable[[KafkaRpc], Awaitable[_Result]], what: str) -> _Result:
        client = client_for(self._settings)
        asked: Coroutine[Any, Any, _Result] = _within(lambda: ask(client.rpc), what)
        try:
            return client.start(asked).result()
        except RetriableError as error:
            raise ClusterError(str(error)) from error


async def _within(ask: Callable[[], Awaitable[_Result]], what: str) -> _Result:
    try:
        async with asyncio.timeout(MOST_MS / 1000):
            return await until_deadline(ask, f"asking for {what}", _log, TIMEOUT_MS, USUAL_MS)
    except TimeoutError as error:
        raise RetriableError(f"asking for {what}: no answer within {MOST_MS} ms") from error


async def _groups(rpc: KafkaRpc, node: int) -> Sequence[str]:
    answer = await rpc.send(node, ListGroupsRequest())
    if answer.error_code:
        raise RetriableError(f"groups of broker {node}: {describe_code(answer.error_code)}")
    return [name for name, _ in answer.groups]


def _raise_if(rpc: KafkaRpc, group: str, code: int, wanted: Operation) -> None:
    if not code:
        return
    rpc.raise_if_denied(code, group_right(group, wanted))
    raise RetriableError(f"group {group!r}: {describe_code(code)}")
