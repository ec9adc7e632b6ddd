"""Exactly the rows that were sent to a node: runs of an exchange's topic, uncommitted while the step that wrote them
is under way, committed when it is run again.

What is read uncommitted might be anybody's. So nothing counts but what the attempt's own producer has
written, for this step and this node: neither another leader's log nor a wrong offset can slip in another
attempt's rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NoReturn

import pyarrow as pa

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, READ_UNCOMMITTED
from kcontrol.adapters.kafka.exchange.attempt import FORMAT, FORMAT_HEADER, headers_of
from kcontrol.adapters.kafka.read.fetch_ahead import FetchAhead
from kcontrol.adapters.kafka.read.fetch_range import Chunk, RangeId, parse_topic_id
from kcontrol.adapters.kafka.read.fetching import ReadLimits, fetches
from kcontrol.core.model import FailureKind
from kcontrol.errors import ConfigurationError, DamagedRecordError, InputGoneError, StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import Decoded, Fetched, default_codec
from kcontrol.wire.chunks import unpack
from kcontrol.wire.digest import DigestKind

Run = tuple[int, int, int]
"""(partition, from, to): what one ExchangeRun of a slice names."""

_REMEDY = (
    "an exchange is needed from the oldest checkpoint on: set retention.ms and retention.bytes of the topic to -1. "
    "Whoever begins with a checkpoint of this step, or of a later one, does not need these: if one has been made meanwhile, "
    "what failed here succeeds when it is run again."
)


@dataclass(frozen=True, slots=True)
class Sent:
    """By whom the runs were written, and for whom.

    producer_id, producer_epoch: of the attempt, or in a replay of the boundary's token. committed: False
    during an attempt (nothing of it is committed yet), True in a replay.
    """

    step: int
    node: int
    producer_id: int
    producer_epoch: int
    committed: bool

    @property
    def by(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self.producer_epoch


class ExchangeRead(Iterator[pa.RecordBatch]):
    """The rows of some runs, one run after the other, to be iterated once. `rows`: of each run, what has been
    returned so far; all of it at the end: the caller compares it with what the run should hold."""

    def __init__(self, batches: Iterator[tuple[int, pa.RecordBatch]], runs: int) -> None:
        self._batches = batches
        self.rows: list[int] = [0] * runs

    @property
    def records(self) -> int:
        """Rows of all runs together."""
        return sum(self.rows)

    def __next__(self) -> pa.RecordBatch:
        index, batch = next(self._batches)
        self.rows[index] += batch.num_rows
        return batch


class ExchangeReader:
    """Reads runs of one exchange; connections belong to the process and are kept.

    topic_id: as Kafka's tools show it. schema: of the rows, as the exchange declares it.
    """

    def __init__(
        self, settings: ClusterSettings, exchange: str, topic: str, topic_id: str, schema: pa.Schema,
        limits: ReadLimits | None = None,
    ) -> None:  # fmt: skip
        self._client = client_for(settings)
        self._exchange, self._topic, self._topic_id = exchange, topic, parse_topic_id(topic_id)
        self._schema = schema
        self._limits = limits or ReadLimits()

    def read(self, runs: Sequence[Run], sent: Sent) -> ExchangeRead:
        """The rows of the runs, in this order; no batch is empty. The first fetches of several partitions go
        together.

        The iteration raises StepFailedError of kind LOST: what lies there was written by another attempt, for
        another step or node, or is there no more (in an attempt). InputGoneError: it is there no more (in a
        replay). DamagedRecordError, ConfigurationError: see `unpack`. AccessError: not allowed.
        RetriableError: Kafka did not deliver in time.
        """
        wanted = [self._range(run, sent) for run in runs]
        return ExchangeRead(self._each(wanted, sent), len(wanted))

    def _range(self, run: Run, sent: Sent) -> RangeId:
        partition, from_, to = run
        isolation = READ_COMMITTED if sent.committed else READ_UNCOMMITTED
        where = (self._exchange, self._topic, self._topic_id, partition, from_, to)
        return RangeId(*where, isolation, "exchange", _REMEDY)

    def _each(self, ranges: Sequence[RangeId], sent: Sent) -> Iterator[tuple[int, pa.RecordBatch]]:
        ahead = FetchAhead(
            self._client, [each for each in ranges if each.from_ < each.to], self._limits.fetch_max_bytes
        )
        try:
            for index, wanted in enumerate(ranges):
                if wanted.from_ < wanted.to:
                    for batch in self._batches(wanted, ahead, sent):
                        yield index, batch
        except InputGoneError as error:
            if sent.committed:
                raise
            raise StepFailedError(FailureKind.LOST, f"step {sent.step}: {error}") from error
        finally:
            ahead.close()

    def _batches(self, wanted: RangeId, ahead: FetchAhead, sent: Sent) -> Iterator[pa.RecordBatch]:
        with closing(fetches(self._client, wanted, ahead, self._limits)) as found:
            for chunk, fetched in found:
                _check_writer(wanted, chunk, fetched, sent)
                runs = fetched.decode(
                    default_codec(),
                    chunk.aborted,
                    chunk.position,
                    wanted.to,
                    DigestKind.NONE,
                    headers=True,
                    run_bytes=self._limits.run_bytes,
                )
                for run in runs:
                    yield from self._unpacked(wanted, run, sent)

    def _unpacked(self, wanted: RangeId, run: Decoded, sent: Sent) -> Iterator[pa.RecordBatch]:
        names = ("value", "offset", "headers")
        for value, offset, headers in zip(*(run.rows.column(name) for name in names), strict=True):
            where = f"step {sent.step}, {wanted.where}, offset {offset.as_py()}"
            _check_headers(wanted, headers.as_py(), sent, where)
            data = value.as_buffer()
            if data is None:
                raise DamagedRecordError(f"{where}: this is no chunk of an exchange: it has no value")
            yield from unpack(data, self._schema, where)


def _check_writer(wanted: RangeId, chunk: Chunk, fetched: Fetched, sent: Sent) -> None:
    """Every batch that reaches into the range is the attempt's own."""
    for batch in fetched.batches:
        if batch.next_offset <= chunk.position or batch.base_offset >= wanted.to:
            continue
        if batch.control or (batch.producer_id, batch.producer_epoch) != sent.by:
            whose = (
                "ends a transaction"
                if batch.control
                else f"is of producer {batch.producer_id}, epoch {batch.producer_epoch}"
            )
            _foreign(wanted, sent, f"the batch at offset {batch.base_offset} {whose}")


def _check_headers(wanted: RangeId, headers: Sequence[Any] | None, sent: Sent, where: str) -> None:
    said = {header["key"]: header["value"] for header in headers or ()}
    if said.get(FORMAT_HEADER) != FORMAT:
        raise ConfigurationError(
            f"{where}: the chunk has format {_text(said.get(FORMAT_HEADER))}; this version of kcontrol knows "
            f"{_text(FORMAT)}: run all nodes with the newer one"
        )
    for name, expected in headers_of(sent.step, sent.node).items():
        if said.get(name) != expected:
            _foreign(
                wanted, sent, f"a record there says {name} {_text(said.get(name))}, not {_text(expected)}"
            )


def _foreign(wanted: RangeId, sent: Sent, why: str) -> NoReturn:
    raise StepFailedError(
        FailureKind.LOST,
        f"step {sent.step}, {wanted.where}: offsets {wanted.from_} to {wanted.to} should hold what producer "
        f"{sent.producer_id}, epoch {sent.producer_epoch}, has sent to node {sent.node}, but {why}. Records were lost, or "
        "another attempt's took their place.",
    )


def _text(value: bytes | None) -> str:
    return "none" if value is None else value.decode(errors="backslashreplace")
