"""Writes to one partition in order and exactly as often as asked, and returns the offsets: aiokafka's idempotent producer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka import errors as kafka_errors

from kcontrol.adapters.kafka.access import Operation, denied
from kcontrol.adapters.kafka.access import topic as topic_right
from kcontrol.adapters.kafka.clients import aiokafka_options
from kcontrol.adapters.kafka.refusals import raise_if_refused
from kcontrol.adapters.kafka.rpc import describe
from kcontrol.errors import RetriableError, TopicError
from kcontrol.runtime.settings import ClusterSettings

APPEND_TIMEOUT_MS = 20_000
"""aiokafka repeats a write for so long; after that the writer starts anew."""

_STOP_TIMEOUT_S = 2.0
_REFUSED = (kafka_errors.TopicAuthorizationFailedError, kafka_errors.ClusterAuthorizationFailedError)


class Appender:
    """A producer for one partition, made at first use and made anew after a fault. One `append` at a time goes out."""

    def __init__(self, settings: ClusterSettings, topic: str, partition: int) -> None:
        self._settings = settings
        self._topic = topic
        self._partition = partition
        self._producer: Any = None
        self._turn = asyncio.Lock()

    @property
    def where(self) -> str:
        return f"topic {self._topic!r}, partition {self._partition}"

    async def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
        """Write (key, value) pairs in order, acks=all; the offsets once all are acknowledged.

        Raises RetriableError: some or all may or may not have been written. TopicError: one is larger than the topic takes.
        AccessError: the topic may not be written.
        """
        async with self._turn:
            try:
                async with asyncio.timeout(APPEND_TIMEOUT_MS / 1000):
                    return await self._append(records)
            except kafka_errors.MessageSizeTooLargeError as error:
                raise TopicError(
                    f"{self.where} does not take a record of {max(len(value or b'') for _, value in records)} bytes: raise "
                    "max.message.bytes of the topic."
                ) from error
            except _REFUSED as error:
                await self._discard()
                raise denied(self._settings, topic_right(self._topic, Operation.WRITE)) from error
            except (kafka_errors.KafkaError, OSError) as error:
                await self._discard()
                await raise_if_refused(self._settings, aiokafka_options(self._settings))
                raise RetriableError(f"{self.where}: writing failed: {describe(error)}") from error

    async def close(self) -> None:
        async with self._turn:
            await self._discard()

    async def _append(self, records: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
        if self._producer is None:
            self._producer = await self._start()
        producer = self._producer
        sent = [await producer.send(self._topic, value, key, self._partition) for key, value in records]
        return [(await acknowledged).offset for acknowledged in sent]

    async def _start(self) -> Any:
        options = aiokafka_options(self._settings)
        producer = AIOKafkaProducer(**options, enable_idempotence=True, acks="all", linger_ms=0)
        try:
            await producer.start()
        except BaseException:
            await producer.stop()
            raise
        return producer

    async def _discard(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            with contextlib.suppress(kafka_errors.KafkaError, OSError):
                await asyncio.wait_for(producer.stop(), _STOP_TIMEOUT_S)
