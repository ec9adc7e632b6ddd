"""Rows that a step would have sent to nodes, had it not been a rehearsal: Arrow files in a directory of this machine, one for
each sender task and node, from which the next rehearsed step takes those that are for its own node.

So what is behind an exchange is rehearsed on real rows, before any step was made by which there is one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from kcontrol.core.model import ExchangeRun, ExchangeSlice
from kcontrol.wire.batches.columns import Ints

_FILE = re.compile(r"(?P<exchange>.+)\.(?P<slot>\d+)\.(?P<node>\d+)\.arrows")


def place_of(home: Path, step: int) -> Path:
    """Where the senders of a rehearsed step leave their rows."""
    return home / str(step)


class SentFiles:
    """A sender task's side. place: the step's directory. slot: of the exchange, the task's own."""

    def __init__(self, place: Path, exchange: str, slot: int) -> None:
        self._place, self._exchange, self._slot = place, exchange, slot
        self._files: dict[int, tuple[pa.OSFile, pa.ipc.RecordBatchStreamWriter]] = {}

    def write(self, rows: pa.RecordBatch, nodes_of_rows: Ints) -> None:
        """Each row to the file of its node. Raises OSError."""
        for node in map(int, np.unique(nodes_of_rows)):
            kept = rows.filter(pa.array(np.asarray(nodes_of_rows) == node))
            self._stream(node, rows.schema).write_batch(kept)

    def close(self) -> None:
        """Nothing more comes; may be said twice."""
        while self._files:
            file, stream = self._files.popitem()[1]
            stream.close()
            file.close()

    def _stream(self, node: int, schema: pa.Schema) -> pa.ipc.RecordBatchStreamWriter:
        if node not in self._files:
            self._place.mkdir(parents=True, exist_ok=True)
            path = self._place / f"{self._exchange}.{self._slot}.{node}.arrows"
            file = pa.OSFile(str(path), "wb")
            self._files[node] = (file, pa.ipc.new_stream(file, schema))
        return self._files[node][1]


def sent_to(home: Path, step: int, node: int, exchanges: Collection[str]) -> tuple[ExchangeSlice, ...]:
    """What a rehearsed step has left for a node in some exchanges, as if it lay at the first offsets of each slot."""
    found = []
    for path in sorted(place_of(home, step).glob("*.arrows")):
        named = _FILE.fullmatch(path.name)
        if named is not None and int(named["node"]) == node and named["exchange"] in exchanges:
            rows = sum(batch.num_rows for batch in _read(path))
            run = ExchangeRun(node, 0, rows, rows, "")
            found.append(ExchangeSlice(named["exchange"], int(named["slot"]), 0, rows, (run,)))
    return tuple(found)


def read_sent(
    place: Path, exchange: str, slot: int, node: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of one file, none of its batches empty. schema: as whoever reads the exchange has its columns, of which any may
    be null; of those that were sent Spark may know that they never are. Raises OSError."""
    path = place / f"{exchange}.{slot}.{node}.arrows"
    return (batch.cast(schema) for batch in _read(path) if batch.num_rows)


def _read(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        yield from stream
