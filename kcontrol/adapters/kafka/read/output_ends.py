"""Where topics end now, asked by whoever holds pipelines meanwhile: of the leaders alone, and not for long."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kcontrol.adapters.kafka.client.partitions import Bound, Partitions
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.errors import RetriableError
from kcontrol.settings.cluster import ClusterSettings

ASKED_S = 3.0
"""A leader that was killed is not waited for: whoever asks has others to look after."""
_DOING = "asking where an output ends"


class OutputEnds:
    """Of one cluster; several may ask at once."""

    def __init__(self, rpc: KafkaRpc, asked_s: float = ASKED_S) -> None:
        self._partitions, self._asked_s = Partitions(rpc), asked_s

    @classmethod
    def of(cls, settings: ClusterSettings) -> OutputEnds:
        return cls(KafkaRpc(settings))

    async def ends(self, topics: Mapping[str, int]) -> dict[tuple[str, int], int]:
        """By topic and partition, the offset after the last committed record, as the leader says, which may be old.

        topics: how many partitions each has. Raises RetriableError: not all leaders have told it in time. TopicError,
        AccessError.
        """
        try:
            async with asyncio.timeout(self._asked_s):
                return {
                    (name, partition): end
                    for name, count in topics.items()
                    for partition, end in (await self._of(name, range(count))).items()
                }
        except TimeoutError as error:
            raise RetriableError(
                f"{_DOING}: no answer about {', '.join(topics)} within {self._asked_s:g} s"
            ) from error

    async def _of(self, name: str, partitions: range) -> dict[int, int]:
        """Who leads is asked each time: whoever did may have been deposed."""
        info = await self._partitions.rpc.topic(name, Operation.DESCRIBE)
        return await self._partitions.offsets(
            info, partitions, Bound.LATEST, wanted=Operation.DESCRIBE, doing=_DOING
        )

    async def close(self) -> None:
        await self._partitions.rpc.close()
