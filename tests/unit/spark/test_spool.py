"""A replay's rows through the files between its tasks and the driver: all of them,
unchanged, with the digests as without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.messages import Grant, Placement
from kcontrol.adapters.spark.channel.targets import DIGEST_COLUMN, PARTITION_COLUMN, OutputTarget
from kcontrol.adapters.spark.channel.write_job import WriteJob
from kcontrol.adapters.spark.sink.spool import MAX_BATCH_ROWS, Spool, check_local
from kcontrol.adapters.spark.sink.turns import WriterIdentity
from kcontrol.adapters.spark.sink.writing import RowWriter
from kcontrol.errors import ConfigurationError, StepFailedError
from kcontrol.replay.delivery import ReplayedRecord
from kcontrol.wire.batches import HEADERS_TYPE

NOBODY = ChannelAddress("127.0.0.1", 1, "")
GRANT = Grant((), step=5, now_ms=0, transactional_id="", producer_id=0, producer_epoch=0)
OUT = OutputTarget("out", "topic", 4, (0, 1, 2, 3), "exact")
MORE = OutputTarget("more", "topic-2", 4, (0, 1, 2, 3), "exact")


def rows(**columns: list[Any]) -> pa.RecordBatch:
    types = {"key": pa.binary(), "headers": HEADERS_TYPE, "value": pa.binary(), PARTITION_COLUMN: pa.int32()}
    arrays = [pa.array(column, types.get(name, pa.binary())) for name, column in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def place(spool: Spool, step: int = 5) -> Path:
    found = spool.place(step)
    assert found is not None
    return found


def writer_of(place: Path | None, writer: int = 0) -> RowWriter:
    job = WriteJob(1, Placement.SINGLE, 1, True, (OUT, MORE), str(place) if place else None)
    return RowWriter(NOBODY, GRANT, job, WriterIdentity(1, "q", writer, 17))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool", first_step=5)


def test_what_tasks_write_is_read_back_output_by_output_and_task_by_task(spool: Spool) -> None:
    headers = [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None]
    for task in (10, 2):
        writer = writer_of(place(spool), task)
        writer.write(MORE, rows(value=[b"%d" % task]), pa.array([3]))
        writer.write(OUT, rows(key=[b"k", None], value=[b"", None], headers=headers), pa.array([1, 0]))
        writer.write(OUT, rows(value=[b"again"]), pa.array([1]))
        writer.finish()
    one_task = [
        ReplayedRecord("out", 1, b"k", b"", (("h", b"1"), ("h", None))),
        ReplayedRecord("out", 0, None, None, ()),
        ReplayedRecord("out", 1, None, b"again", ()),
    ]
    more = [ReplayedRecord("more", 3, None, value, ()) for value in (b"2", b"10")]
    records = spool.read(5, ["out", "more"])
    assert list(records) == [*one_task, *one_task, *more]
    assert list(records) == list(records), "as often as wanted"
    assert list(spool.read(5, ["more"])) == more


def test_the_digests_are_those_of_a_replay_that_keeps_nothing(spool: Spool) -> None:
    """Also of an output whose digest is made of rounded values, which are not what is delivered."""
    target = OutputTarget("out", "topic", 4, (0, 1, 2, 3), "float:0.01")
    batch = rows(value=[b"1.001", b"2"], **{DIGEST_COLUMN: [b"1.0", b"2.0"], PARTITION_COLUMN: [2, 3]})
    written = []
    for kept in (None, place(spool)):
        writer = writer_of(kept)
        writer.write(target, batch, batch.column(PARTITION_COLUMN))
        written.append(writer.finish())
    assert written[0] == written[1]
    assert [(item.partition, item.records) for item in written[0]] == [(2, 1), (3, 1)]
    assert [record.value for record in spool.read(5, ["out"])] == [b"1.001", b"2"]


def test_many_rows_are_kept_in_small_batches(spool: Spool) -> None:
    count = 2 * MAX_BATCH_ROWS + 1
    values = [b"%d" % number for number in range(count)]
    # A slice: what lies before and behind it in the same buffers does not belong to the rows.
    batch = rows(value=[b"before", *values, b"behind"])[1 : count + 1]
    writer = writer_of(place(spool))
    writer.write(OUT, batch, pa.array(np.arange(count) % 4))
    writer.finish()
    [path] = place(spool).iterdir()
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        assert [part.num_rows for part in stream] == [MAX_BATCH_ROWS, MAX_BATCH_ROWS, 1]
    assert [(record.partition, record.value) for record in spool.read(5, ["out"])] == [
        (number % 4, value) for number, value in enumerate(values)
    ]


def test_only_the_steps_that_are_wanted_are_kept_and_only_until_they_are_delivered(spool: Spool) -> None:
    assert spool.place(4) is None
    here = place(spool)
    writer = writer_of(here)
    writer.write(OUT, rows(value=[b"v"]), pa.array([0]))
    writer.abort()
    spool.drop(5)
    assert not here.exists()
    assert list(spool.read(5, ["out"])) == []
    assert list(spool.read(6, ["out"])) == [], "a step without rows"
    spool.drop(6)


def test_rows_that_the_output_does_not_take_are_not_kept(spool: Spool) -> None:
    writer = writer_of(place(spool))
    with pytest.raises(StepFailedError, match="a row is for partition 4"):
        writer.write(OUT, rows(value=[b"v"]), pa.array([4]))
    writer.abort()
    assert list(spool.read(5, ["out"])) == []


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_local_masters_will_do(master: str) -> None:
    check_local(master)


@pytest.mark.parametrize(
    "master", ["local-cluster[2,1,1024]", "spark://host:7077", "yarn", "k8s://https://host", ""]
)
def test_other_masters_are_refused(master: str) -> None:
    with pytest.raises(ConfigurationError, match=r"must run on this machine; use --master 'local\[N\]'"):
        check_local(master)
