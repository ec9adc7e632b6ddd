"""The PushLog port on Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from kcontrol.adapters.kafka.client.partitions import Partitions
from kcontrol.adapters.kafka.client.protocol import topic_id_text
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.push.shard import Placed, Shard, by_partition
from kcontrol.adapters.kafka.push.topic import SHARDS, ensure_pushes_topic
from kcontrol.backoff import Backoff
from kcontrol.errors import (
    CommitUnknownError,
    FencedError,
    InputGoneError,
    KcontrolError,
    RetriableError,
)
from kcontrol.requests.push.bodies import InputRow, content_of
from kcontrol.requests.push.limits import MemoryLimits, OversizedPushError
from kcontrol.requests.push.log import (
    OtherRowsError,
    Push,
    Pushed,
    TooManyRememberedError,
    TooMuchError,
    always,
    counts,
)
from kcontrol.sessions.ports import Clock
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.completion import MAX_TOKEN_RECORDS
from kcontrol.wire.murmur2 import partition_of
from kcontrol.wire.pushed import PushedEnd, PushedRequest, request_key

AGAIN = Backoff(first_ms=20, longest_ms=1_000, deadline_ms=20_000)
"""Between tries at one request. Others may have taken its shard meanwhile, and it theirs."""
_FORGET_EVERY_MS = 60_000


class KafkaPushLog:
    """Any number of these, in any processes, may push to the same inputs. Those that push by turns take the shards from each
    other, which is right and slow."""

    def __init__(self, settings: ClusterSettings, clock: Clock, limits: MemoryLimits | None = None) -> None:
        self._settings, self._clock, self._limits = settings, clock, limits or MemoryLimits()
        self._partitions = Partitions(KafkaRpc(settings))
        self._shards: dict[int, tuple[Shard, asyncio.Lock]] = {}
        self._ready = asyncio.Lock()
        self._is_ready = False
        self._forgot_ms = 0

    async def push(self, push: Push, check_room: Callable[[], None] = always) -> Pushed:
        """As the port says."""
        async with self._ready:
            if not self._is_ready:
                await asyncio.to_thread(ensure_pushes_topic, self._settings)
                self._is_ready = True
        self._forget()
        key = request_key(push.pipeline, push.input.name, push.request_id)
        number = partition_of(key.encode(), SHARDS)
        if number not in self._shards:
            shard = Shard(self._settings, number, self._clock, self._limits.remember_ms)
            self._shards[number] = shard, asyncio.Lock()
        shard, turn = self._shards[number]
        content, tries = content_of(push.rows), AGAIN.begin()
        while True:
            async with turn:
                try:
                    return await self._push(shard, push, key, content, check_room)
                except TooMuchError:
                    raise
                except (RetriableError, FencedError, CommitUnknownError) as error:
                    shard.is_ours, last = False, error
                except KcontrolError:
                    if not shard.is_ours:
                        with suppress(KcontrolError):
                            # What is written of it ends now, or readers of the input would wait for its timeout.
                            await shard.take()
                    raise
            await tries.again(f"request {push.request_id!r} to push rows", last)

    def remembered(self) -> int:
        """As the port says."""
        self._forget()
        return self._known()

    async def close(self) -> None:
        for shard, _ in self._shards.values():
            await shard.close()
        await self._partitions.rpc.close()

    async def _push(
        self, shard: Shard, push: Push, key: str, content: str, check_room: Callable[[], None]
    ) -> Pushed:
        if not shard.is_ours:
            await shard.take()
        known = shard.known.get(key)
        if known is not None and self._counts(known, push):
            if known.content != content:
                raise OtherRowsError(
                    f"request {push.request_id!r} has pushed {known.records} other rows to input {push.input.name!r} already: "
                    "give each request an id of its own"
                )
            return Pushed(known, replayed=True)
        check_room()
        self._check_memory()
        placed = await self._placed(push, key)

        def request_of(ends: tuple[PushedEnd, ...]) -> PushedRequest:
            item = push.input
            return PushedRequest(
                *(
                    push.pipeline,
                    item.name,
                    push.request_id,
                    item.topic,
                    item.topic_id,
                    content,
                    len(push.rows),
                ),
                at_ms=self._clock.now_ms(),
                ends=ends,
                remember_ms=self._limits.remember_ms,
                longest_ms=shard.longest_ms(),
            )

        return Pushed(await shard.write(placed, push.input.topic, request_of), replayed=False)

    def _counts(self, known: PushedRequest, push: Push) -> bool:
        """Whether it is the same request still. What was pushed to a topic that was recreated since is gone."""
        is_there = known.topic_id == push.input.topic_id
        return is_there and counts(known.until_ms, self._clock.now_ms())

    async def _placed(self, push: Push, key: str) -> Placed:
        """Rows with a key go where any producer's would; the others of a request to one partition, in order."""
        item = push.input
        try:
            info = await self._partitions.topic(item.topic, Operation.WRITE)
        finally:
            self._partitions.forget(item.topic)
        if topic_id_text(info.topic_id) != item.topic_id:
            raise InputGoneError(
                f"pipeline {push.pipeline!r}, input {item.name!r}: topic {item.topic!r} was recreated, and the pipeline reads "
                "the one before: nothing was written"
            )
        count = len(info.leaders)
        without = partition_of(key[::-1].encode(), count)

        def place(row: InputRow) -> int:
            return without if row.key is None else partition_of(row.key, count)

        found = by_partition(push.rows, place)
        if len(found) > MAX_TOKEN_RECORDS:
            raise OversizedPushError(
                f"pipeline {push.pipeline!r}, input {item.name!r}: the rows' keys are of {len(found)} partitions, and a "
                f"completion token names {MAX_TOKEN_RECORDS} at most: send them in several requests; nothing was written"
            )
        return found

    def _known(self) -> int:
        return sum(len(shard.known) for shard, _ in self._shards.values())

    def _check_memory(self) -> None:
        if self._known() < self._limits.requests:
            return
        self._forget(now=True)
        if self._known() >= self._limits.requests:
            raise TooManyRememberedError(
                f"{self._limits.requests} requests are remembered, which is all that may be: put more rows into each",
                retry_after_s=60,
            )

    def _forget(self, *, now: bool = False) -> None:
        """What may be asked for again as something new."""
        now_ms = self._clock.now_ms()
        if not now and now_ms < self._forgot_ms + _FORGET_EVERY_MS:
            return
        self._forgot_ms = now_ms
        for shard, _ in self._shards.values():
            old = [each for each, request in shard.known.items() if not counts(request.until_ms, now_ms)]
            for each in old:
                del shard.known[each]
