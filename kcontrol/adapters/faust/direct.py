"""Faust's consumer, with a shorter way for what it has fetched.

Faust hands a record on through six tasks of two threads, so that several agents may share a consumer and commit what they
have done. A coordinator commits nothing, and every step of every pipeline waits for its records: the consumer's thread gives
them to the application's loop at once. See docs/decisions/141-handed-over-by-the-consumer.md.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, cast

import aiokafka
import faust
from aiokafka import ConsumerRecord, TopicPartition
from aiokafka.errors import KafkaError
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread, Consumer, Transport

_log = logging.getLogger("kcontrol.coordinator")

Take = Callable[[int, Sequence[ConsumerRecord]], None]
"""Takes records of a partition, in order, in the application's loop."""


class DirectTransport(Transport):
    """Records go to `take` and not to agents. Whatever `take` raises crashes the application, as an agent's exception does.

    Partitions begin at their ends, and go on through a rebalance where they were: no offset is committed.
    """

    def __init__(self, app: faust.App, take: Take) -> None:
        super().__init__(app.conf.broker_consumer, app)
        self.take = take


class _Thread(AIOKafkaConsumerThread):
    _next_offsets: dict[TopicPartition, int]
    _seeks: int
    _sought_s: float

    def __post_init__(self) -> None:
        super().__post_init__()
        self._next_offsets, self._seeks, self._sought_s = {}, 0, 0.0

    async def _fetch_records(
        self,
        consumer: aiokafka.AIOKafkaConsumer,
        active_partitions: Any,
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> Mapping[Any, Any]:
        """Hand over what comes until `timeout`, without asking Faust's own loop in between. Faust itself gets nothing."""
        until = time.monotonic() + (timeout or 0.0)
        # While partitions are dealt anew nothing is fetched.
        while self.consumer.flow_active:
            left_s = max(0.0, until - time.monotonic())
            fetched = await super()._fetch_records(consumer, active_partitions, left_s, max_records)
            for partition, records in fetched.items():
                self._next_offsets[partition] = records[-1].offset + 1
                self.parent_loop.call_soon_threadsafe(self._hand_over, partition.partition, records)
            if not fetched or not left_s:
                break
            await asyncio.sleep(0)
        return {}

    def _hand_over(self, partition: int, records: Sequence[ConsumerRecord]) -> None:
        try:
            cast(DirectTransport, self.consumer.transport).take(partition, records)
        except Exception as error:  # noqa: BLE001 - it ends the application, whatever it is
            self._crashing = asyncio.ensure_future(self.app.crash(error))

    async def seek_to_committed(self) -> Mapping[Any, int]:
        """Where each partition goes on."""
        found: Mapping[Any, int] = await self.call_thread(self._seek)
        return found

    async def _seek(self) -> Mapping[Any, int]:
        consumer = self._ensure_consumer()
        assigned = consumer.assignment()
        self._next_offsets = {tp: at for tp, at in self._next_offsets.items() if tp in assigned}
        for partition, offset in self._next_offsets.items():
            consumer.seek(partition, offset)
        self._seeks += 1
        if begun := assigned - self._next_offsets.keys():
            await self._seek_to_end(consumer, begun, self._seeks)
        self._sought_s = time.monotonic()
        return dict(self._next_offsets)

    async def _seek_to_end(
        self, consumer: aiokafka.AIOKafkaConsumer, partitions: AbstractSet[TopicPartition], number: int
    ) -> None:
        """Who asks for the ends looks for new leaders when one has moved. The consumer's own `seek_to_end` asks the same broker
        again and again, until it would have asked for metadata anyway, and reads nothing meanwhile that this broker leads.

        number: of this seek. Partitions that were dealt anew while it waited are sought by the next, and may be read already.
        """
        try:
            ends = await consumer.end_offsets(partitions)
        except KafkaError as error:
            ends = {}
            _log.warning(
                "nobody says where %d partitions of the control topic end: %s", len(partitions), error
            )
        if number != self._seeks:
            return
        still = partitions & consumer.assignment()
        for partition in still & ends.keys():
            consumer.seek(partition, ends[partition])
        if unknown := still - ends.keys():
            await consumer.seek_to_end(*unknown)

    def verify_event_path(self, now: float, tp: Any) -> None:
        """Of Faust's questions the one about fetching; no stream sees these records, and nothing is committed. It counts from
        the start, so a partition that has just come would be taken for one that is never read."""
        if time.monotonic() - self._sought_s >= self.tp_fetch_request_timeout_secs:
            self.verify_recovery_event_path(now, tp)


class _Consumer(Consumer):
    def _new_consumer_thread(self) -> AIOKafkaConsumerThread:
        return _Thread(self, loop=self.loop, beacon=self.beacon)


DirectTransport.Consumer = _Consumer
