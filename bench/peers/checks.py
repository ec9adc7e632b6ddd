"""Whether an output is what exactly once promises: each record in it once and in its order, or each key's last row its whole
count and sum. A run that is not has no figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.latency import PARTITIONS
from bench.queries import NUMBER_DIGITS
from bench.topics import KEYS, VALUE_BYTES, record
from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.client.protocol import topic_id_text
from kcontrol.adapters.kafka.read.ranges import RangeReader
from kcontrol.settings.cluster import ClusterSettings

TAIL_RECORDS = 20_000
_POWERS = 10 ** np.arange(NUMBER_DIGITS - 1, -1, -1, dtype=np.int64)

Ends = Mapping[int, int]
"""One more than the last offset to look at, by partition."""


class Output:
    """Reads committed records of a topic up to its ends."""

    def __init__(self, bootstrap_servers: str, topic: str, ends: Ends) -> None:
        self._settings = ClusterSettings(bootstrap_servers=bootstrap_servers)
        self._topic, self._ends = topic, ends
        client = client_for(self._settings)
        self._topic_id = topic_id_text(client.start(client.rpc.topic(topic)).result().topic_id)

    def all(self) -> Iterator[pa.RecordBatch]:
        return self._last(max(self._ends.values()))

    def last_rows(self, keys: int) -> dict[bytes, bytes]:
        """Each key's last row, read from as near to the ends as it takes to find so many keys, or from all."""
        tail = TAIL_RECORDS
        while True:
            rows: dict[bytes, bytes] = {}
            for batch in self._last(tail):
                rows.update(zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True))
            if len(rows) >= keys or tail >= max(self._ends.values()):
                return rows
            tail *= 4

    def _last(self, records: int) -> Iterator[pa.RecordBatch]:
        ranges = [(partition, max(0, end - records), end) for partition, end in self._ends.items() if end]
        return RangeReader(self._settings).read_each("check", self._topic, self._topic_id, ranges)


def check(workload: str, output: Output, records: int) -> None:
    """Raises RuntimeError: the output is not that of the first `records` records."""
    if workload == "aggregate":
        check_rows(output.last_rows(KEYS), records)
    else:
        order = Order()
        check_numbers((order.numbers_of(batch) for batch in output.all()), records)


class Order:
    """Whether records of one partition of the source that have come to one partition of the sink follow each other there as
    they did before. The bench's record n is in the source's partition n modulo their number."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], int] = {}

    def numbers_of(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """Of the next rows, by partition in the order of their offsets. Raises RuntimeError for one that was overtaken."""
        numbers, partitions = numbers_of(batch["value"]), batch["partition"].to_numpy()
        for sink in np.unique(partitions):
            for source in range(PARTITIONS):
                found = numbers[(partitions == sink) & (numbers % PARTITIONS == source)]
                self._check((int(sink), source), found)
        return numbers

    def _check(self, place: tuple[int, int], found: npt.NDArray[np.int64]) -> None:
        known = np.concatenate(([self._last.get(place, -1)], found))
        if late := np.flatnonzero(np.diff(known) <= 0).tolist():
            before, after = known[late[0] : late[0] + 2].tolist()
            raise RuntimeError(
                f"record {after} comes after record {before} in partition {place[0]} of the output"
            )
        self._last[place] = int(known[-1])


def check_numbers(batches: Iterator[npt.NDArray[np.int64]], records: int) -> None:
    """Each number below `records` must come once."""
    seen = np.zeros(records, dtype=np.int64)
    for numbers in batches:
        if len(numbers) and numbers.max() >= records:
            raise RuntimeError(f"record {numbers.max()} was never sent")
        seen += np.bincount(numbers, minlength=records)
    missing, doubled = int((seen == 0).sum()), int((seen > 1).sum())
    if missing or doubled:
        raise RuntimeError(
            f"of {records:,} records {missing:,} are missing and {doubled:,} came more than once"
        )


def check_rows(rows: Mapping[bytes, bytes], records: int) -> None:
    """Each key's row must have the count and the sum of all its records."""
    expected = totals(records)
    wrong = [key for key in expected.keys() | rows.keys() if rows.get(key) != expected.get(key)]
    if wrong:
        key = min(wrong)
        raise RuntimeError(
            f"{len(wrong)} keys have a wrong last row, {key!r} has {rows.get(key)!r} instead of {expected.get(key)!r}"
        )


def totals(records: int) -> dict[bytes, bytes]:
    """Of the records with the numbers below `records`, in the workload's own form."""
    numbers = np.arange(records, dtype=np.int64)
    each = min(KEYS, records)
    found = {}
    for first in range(each):
        of_key = numbers[first::KEYS]
        found[record(first)[0]] = b"%d,%d" % (len(of_key), int(of_key.sum()))
    return found


def numbers_of(values: pa.Array) -> npt.NDArray[np.int64]:
    """The numbers that the values begin with, all of the bench's one length."""
    offsets = np.frombuffer(values.buffers()[1], dtype=np.int32)[
        values.offset : values.offset + len(values) + 1
    ]
    if values.null_count or (np.diff(offsets) != VALUE_BYTES).any():
        raise RuntimeError("a value is not as long as those that were sent")
    data = np.frombuffer(values.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    digits = data.reshape(-1, VALUE_BYTES)[:, :NUMBER_DIGITS].astype(np.int64) - ord("0")
    numbers: npt.NDArray[np.int64] = digits @ _POWERS
    return numbers
