"""What is written down of steps whose plan is kept can be read again, and does not grow."""

from __future__ import annotations

import json
from pathlib import Path

from kcontrol.adapters.spark.state.batch_log import BatchLog
from kcontrol.adapters.spark.state.formats import planned_ends
from kcontrol.adapters.spark.state.pinning import is_stray

SETTINGS = json.dumps(
    {"batchWatermarkMs": 0, "batchTimestampMs": 5, "conf": {"spark.sql.shuffle.partitions": "3"}}
)
RETAINED = 4


def test_a_step_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = BatchLog(tmp_path, 2, RETAINED)
    log.open()
    assert (log.settings(0), log.ids(0)) == ({}, {})
    ids = {0: (("a",), ("b",)), 10: (("c", "d"), ("e", "f"))}
    log.write(7, SETTINGS, ids)
    assert log.ids(7) == ids
    assert log.settings(7) == {"spark.sql.shuffle.partitions": "3"}
    assert planned_ends(tmp_path / "offsets" / "6") == [7, 7]
    assert not [path for path in tmp_path.rglob("*") if is_stray(path.name)]


def test_partitions_are_in_their_order_however_many_there_are(tmp_path: Path) -> None:
    log = BatchLog(tmp_path, 1, RETAINED)
    log.open()
    stores = tuple((f"of {partition}",) for partition in range(12))
    log.write(1, SETTINGS, {0: stores})
    assert log.ids(1) == {0: stores}


def test_as_many_steps_are_kept_as_spark_would_keep(tmp_path: Path) -> None:
    log = BatchLog(tmp_path, 1, RETAINED)
    log.open()
    for step in range(1, 11):
        log.write(step, SETTINGS, {0: (("x",),)})
    expected = {str(batch) for batch in range(9 - RETAINED, 10)}
    for name in ("offsets", "commits"):
        assert {path.name for path in (tmp_path / name).iterdir()} == expected


def test_what_is_there_already_is_kept_and_what_is_too_old_goes(tmp_path: Path) -> None:
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
        for batch in range(10):
            (tmp_path / name / str(batch)).write_text("")
    (tmp_path / "metadata").write_text('{"id":"mine"}')
    log = BatchLog(tmp_path, 1, RETAINED)
    log.open()
    assert {path.name for path in (tmp_path / "commits").iterdir()} == {str(batch) for batch in range(5, 10)}
    assert (tmp_path / "metadata").read_text() == '{"id":"mine"}'
    log.open()
    assert len(list((tmp_path / "offsets").iterdir())) == RETAINED + 1
