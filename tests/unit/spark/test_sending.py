"""What a sender task makes of rows: to which node each goes."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest

from kcontrol.adapters.spark.channel.messages import Placement
from kcontrol.adapters.spark.channel.targets import HASH_COLUMNS, SHARD_COLUMN, SendTarget
from kcontrol.adapters.spark.channel.write_job import WriteJob
from kcontrol.adapters.spark.sink.sending import RowSender

SHARDS = (0, 1, 2, 3, 3, 3)
"""Of the rows that are sent."""


@pytest.mark.parametrize(
    ("owners", "found"),
    [((0, 1, 0, 1), {0: 2, 1: 4}), ((1, 0, 1, 0), {0: 4, 1: 2}), ((2, 2, 2, 0), {0: 3, 2: 3})],
)
def test_a_row_goes_to_the_node_that_owns_its_shard_by_the_table(
    owners: tuple[int, ...], found: dict[int, int]
) -> None:
    """S001-101."""
    target = SendTarget("x", "exchange.x", first=4, nodes=3, owners=owners)
    placement = next(iter(Placement))
    job = WriteJob(1, placement, tasks=2, replay=True, targets=(), sends=(target,))
    sender = RowSender(cast(Any, None), cast(Any, None), job, task=1)
    numbers = pa.array(range(len(SHARDS)), pa.int64())
    columns = {
        "user": pa.array([f"u{shard}" for shard in SHARDS]),
        SHARD_COLUMN: pa.array(SHARDS, pa.int32()),
        **dict.fromkeys(HASH_COLUMNS, numbers),
    }
    sender.send(pa.RecordBatch.from_pydict(columns))
    [sent] = sender.finish()
    assert (sent.exchange, sent.partition) == ("x", 5)
    assert {run.node: run.records for run in sent.runs} == found


def test_rows_with_nested_columns_bring_two_hashes_in_one_column() -> None:
    target = SendTarget("x", "exchange.x", first=4, nodes=2, owners=(0, 1))
    job = WriteJob(1, next(iter(Placement)), tasks=2, replay=True, targets=(), sends=(target,))
    sender = RowSender(cast(Any, None), cast(Any, None), job, task=0)

    def hashes(plain: list[int], exact: list[int]) -> pa.Array:
        return pa.StructArray.from_arrays([pa.array(plain), pa.array(exact)], ["plain", "exact"])

    columns = {
        "items": pa.array([[1], None, []]),
        SHARD_COLUMN: pa.array([0, 1, 0], pa.int32()),
        "_h1": hashes([1, 2, 3], [10, 20, 30]),
        "_h2": hashes([4, 5, 6], [40, 50, 60]),
    }
    # Of a batch that is a part of another one.
    sender.send(pa.RecordBatch.from_pydict(columns).slice(1))
    sender.send(pa.RecordBatch.from_pydict(columns).slice(0, 1))
    [sent] = sender.finish()
    digests = {run.node: [int(run.digest[at : at + 16], 16) for at in range(0, 64, 16)] for run in sent.runs}
    assert digests == {0: [4, 40, 100, 10], 1: [2, 20, 50, 5]}
