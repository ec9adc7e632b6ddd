"""Rows that a rehearsal leaves in files instead of sending them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from kcontrol.adapters.spark.channel.sent_rows import SentFiles, place_of, read_sent, sent_to

SCHEMA = pa.schema([("n", pa.int64())])


def _rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(numbers)})


def test_each_node_finds_what_all_tasks_have_left_for_it_in_that_step(tmp_path: Path) -> None:
    for slot, batches in ((0, [_rows(1, 2, 3), _rows(4)]), (3, [_rows(5, 6)])):
        files = SentFiles(place_of(tmp_path, 7), "a.b", slot)
        for rows in batches:
            files.write(rows, np.asarray(rows.column("n"), dtype=np.int32) % 2)
        files.close()
        files.close()
    SentFiles(place_of(tmp_path, 8), "a.b", 0).close()
    other = SentFiles(place_of(tmp_path, 7), "c", 0)
    other.write(_rows(9), np.array([1], dtype=np.int32))
    other.close()
    found = sent_to(tmp_path, 7, 1, {"a.b"})
    assert [(each.exchange, each.partition, each.runs[0].records) for each in found] == [
        ("a.b", 0, 2),
        ("a.b", 3, 1),
    ]
    assert all((run.node, run.from_, run.to) == (1, 0, run.records) for each in found for run in each.runs)
    read = {
        each.partition: [
            row["n"]
            for batch in read_sent(place_of(tmp_path, 7), each.exchange, each.partition, 1, SCHEMA)
            for row in batch.to_pylist()
        ]
        for each in found
    }
    assert read == {0: [1, 3], 3: [5]}
    assert sent_to(tmp_path, 8, 1, {"a.b"}) == ()
    assert [each.exchange for each in sent_to(tmp_path, 7, 1, {"a.b", "c"})] == ["a.b", "a.b", "c"]


def test_columns_that_are_never_null_are_read_as_those_of_the_exchange_which_may_be(tmp_path: Path) -> None:
    files = SentFiles(place_of(tmp_path, 7), "a.b", 0)
    sure = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    files.write(_rows(1, 2).cast(sure), np.zeros(2, dtype=np.int32))
    files.close()
    (read,) = read_sent(place_of(tmp_path, 7), "a.b", 0, 0, SCHEMA)
    assert read.schema == SCHEMA != sure
