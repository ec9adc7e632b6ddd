"""A shard of the requests: one transactional id, and one partition of the topic that remembers them.

Rows and the record of their request are written in one transaction. Whoever takes the shard fences whoever had it, and then
reads its partition to the end, from where requests begin that count: so it knows each of them, and nobody can commit another
one in ignorance of it. After any fault the shard is taken anew and looked at. What a broker calls the end may be old (decision
005): so a request's record proves by the offset that it comes to lie at that nothing unseen lies before it, or the transaction
is given up.

How long a request counts is in its record, so that what one server has promised holds at any other (decision 178); each record
says, too, how far back one has to read for all that count.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from kcontrol.adapters.kafka.client.codes import Verdict
from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED
from kcontrol.adapters.kafka.client.rights import write_right
from kcontrol.adapters.kafka.client.rpc import SETTLING
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.adapters.kafka.transaction.boundary_write import transactional_batch
from kcontrol.adapters.kafka.transaction.faults import raise_for
from kcontrol.adapters.kafka.transaction.requests import OwnedTransaction
from kcontrol.errors import RetriableError, TopicError, UnseenRecordError
from kcontrol.requests.push.bodies import InputRow
from kcontrol.requests.push.limits import KEPT_MS, SLACK_MS, OversizedPushError
from kcontrol.requests.push.log import counts
from kcontrol.sessions.ports import Clock
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.pushed import PushedEnd, PushedRequest, pushed_bytes, pushed_of

TRANSACTION_TIMEOUT_MS = 15_000
"""So long a server that died in the middle may hold up the readers of an input; whoever takes the shard ends it at once."""
DEADLINE_MS = 10_000
"""Of each request to Kafka with its repetitions."""
READ_MS = 10_000
"""To learn what counts in one go; what was read by then is not read again."""
CHUNK_BYTES = 128 << 10
"""Some 250 requests: between two chunks the loop does what else there is."""

_BATCH_BYTES = 500_000
_MARKER = 1
_NO_PRODUCER = (-1, -1)

Placed = Mapping[int, Sequence[InputRow]]
"""Rows by partition."""


class Shard:
    """One call at a time. All methods raise RetriableError, FencedError or CommitUnknownError where the shard has to be taken
    anew; TopicError, AccessError, ConfigurationError."""

    def __init__(self, settings: ClusterSettings, number: int, clock: Clock, remember_ms: int) -> None:
        """remember_ms: requests that are written here count for so long; those of others as long as they say."""
        names = settings.names()
        self._number, self._clock, self._remember_ms = number, clock, remember_ms
        self._reach_ms = remember_ms
        """So far back was read, or is being."""
        self._needed_ms = KEPT_MS
        """So far back something may count, as the newest request says; while none was seen nobody knows."""
        self._until_ms: dict[int, int] = {}
        """By how long requests count: when the newest of them ceases to."""
        self._topic = names.pushes_topic()
        self._owned = OwnedTransaction(settings, names.push_transactional_id(number), DEADLINE_MS)
        self._reader = PartitionReader(self._owned.rpc, self._topic, number, READ_COMMITTED, position=-1)
        self._producer = _NO_PRODUCER
        self._at_least = 0
        self.is_ours = False
        self.known: dict[str, PushedRequest] = {}
        """By key, every request that counts, if the shard is ours."""

    async def take(self) -> None:
        """Fence whoever has it, and learn what counts. What was learned stays when it raises: the next call goes on behind."""
        self.is_ours = False
        self._producer = await self._owned.init_producer(TRANSACTION_TIMEOUT_MS)
        await self._read()
        while self._needed_ms > self._reach_ms:
            self._reach_ms, self._reader.position = self._needed_ms, -1
            await self._read()
        self.is_ours = True

    async def _read(self) -> None:
        # A request counts for longer by as much as clocks may differ, and Kafka's own may differ from its time.
        begin = await self._reader.begin(self._clock.now_ms() - self._reach_ms - 2 * SLACK_MS)
        if self._reader.position < begin:
            self.known.clear()
            self._reader.position = begin
        await self._reader.read_settling(self._at_least, READ_MS, self._learn, CHUNK_BYTES)

    def longest_ms(self) -> int:
        """That a request counts which counts now, or is written here now. The shard must be ours."""
        now_ms = self._clock.now_ms()
        counting = [
            remember_ms for remember_ms, until_ms in self._until_ms.items() if counts(until_ms, now_ms)
        ]
        return max([self._remember_ms, *counting])

    async def _learn(self, records: Sequence[RawRecord]) -> None:
        now_ms = self._clock.now_ms()
        for record in records:
            if record.value is None:
                continue
            request = pushed_of(record.value, f"{self._reader.where}, offset {record.offset}")
            self.known.pop(request.key, None)
            self._needed_ms = request.longest_ms
            if counts(request.until_ms, now_ms):
                self._keep(request)
        await asyncio.sleep(0)

    async def write(
        self, rows: Placed, topic: str, request_of: Callable[[tuple[PushedEnd, ...]], PushedRequest]
    ) -> PushedRequest:
        """Write rows to a topic, and their request, which `request_of` makes of where they came to lie. The shard must be
        ours."""
        if self._producer == _NO_PRODUCER:
            self._producer = await self._owned.init_producer(TRANSACTION_TIMEOUT_MS)
        self.is_ours, producer = False, self._producer
        places = [*((topic, partition) for partition in rows), (self._topic, self._number)]
        await self._owned.add_partitions(*producer, places)
        # What of it outlives a fault goes on under an epoch that whoever takes the shard has fenced.
        written = [self._write_rows(producer, topic, partition, part) for partition, part in rows.items()]
        request = request_of(tuple(await asyncio.gather(*written)))
        await self._write_request(producer, request)
        following = await self._owned.commit(*producer)
        self._producer = following or _NO_PRODUCER
        self._reader.position += 1 + _MARKER
        self._needed_ms = request.longest_ms
        self._keep(request)
        self.is_ours = True
        return request

    def _keep(self, request: PushedRequest) -> None:
        self.known[request.key] = request
        before_ms = self._until_ms.get(request.remember_ms, 0)
        self._until_ms[request.remember_ms] = max(before_ms, request.until_ms)

    async def close(self) -> None:
        await self._owned.close()

    async def _write_rows(
        self, producer: tuple[int, int], topic: str, partition: int, rows: Sequence[InputRow]
    ) -> PushedEnd:
        sequence, last = 0, -1
        for part in _parts(rows):
            last = await self._write_part(producer, topic, partition, sequence, part)
            sequence += len(part)
        return PushedEnd(partition, last)

    async def _write_part(
        self, producer: tuple[int, int], topic: str, partition: int, sequence: int, part: Sequence[_Record]
    ) -> int:
        """Where its last row came to lie. In smaller batches if the topic takes none so large."""
        base = await self._send(topic, partition, transactional_batch(producer, sequence, part))
        if base is not None:
            return base + len(part) - 1
        half = len(part) // 2
        if not half:
            raise OversizedPushError(
                f"writing to topic {topic!r}, partition {partition}: a row of {_size(part[0])} bytes is larger than the topic "
                "takes: raise its max.message.bytes; nothing was written"
            )
        await self._write_part(producer, topic, partition, sequence, part[:half])
        return await self._write_part(producer, topic, partition, sequence + half, part[half:])

    async def _write_request(self, producer: tuple[int, int], request: PushedRequest) -> None:
        row = (request.key.encode(), pushed_bytes(request))
        offset = await self._send(self._topic, self._number, transactional_batch(producer, 0, [row]))
        if offset is None:
            raise TopicError(
                f"{self._reader.where}: a request is larger than it takes; raise its max.message.bytes"
            )
        if offset != self._reader.position:
            self._at_least = max(self._at_least, offset)
            raise UnseenRecordError(
                f"{self._reader.where}: a request came to lie at offset {offset}, but what was read ended at "
                f"{self._reader.position}: something is there that was not seen. Nothing of it is committed"
            )

    async def _send(self, topic: str, partition: int, batch: bytes) -> int | None:
        """Where its first record came to lie; None: the topic takes no batch so large."""
        what = f"writing to topic {topic!r}, partition {partition}"
        tries, owned = SETTLING.within(DEADLINE_MS).begin(), self._owned
        answer = await owned.partitions.write(topic, partition, batch, owned.id, what, tries)
        if answer.verdict is Verdict.TOO_LARGE:
            return None
        if answer.verdict not in (Verdict.FINE, Verdict.DUPLICATE):
            owned.rpc.raise_if_denied(answer.code, write_right(answer.code, topic, owned.id), what)
            raise_for(what, answer.code)
        if answer.base_offset < 0:
            raise RetriableError(f"{what}: the broker has the rows, and does not say where")
        return answer.base_offset


_Record = tuple[bytes | None, bytes]


def _parts(rows: Sequence[InputRow]) -> Iterator[list[_Record]]:
    """Small enough for most topics."""
    part: list[_Record] = []
    size = 0
    for row in rows:
        record = (row.key, row.value)
        if part and size + _size(record) > _BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(record)
        size += _size(record)
    if part:
        yield part


def _size(record: _Record) -> int:
    key, value = record
    return len(value) + len(key or b"")


def by_partition(rows: Sequence[InputRow], place: Callable[[InputRow], int]) -> Placed:
    """Rows in their order, by the partition that each goes to."""
    found: dict[int, list[InputRow]] = defaultdict(list)
    for row in rows:
        found[place(row)].append(row)
    return found
