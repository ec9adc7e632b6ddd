"""What is written down of steps whose plan is kept can be read again, and does not grow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcontrol.adapters.spark.state.batch_log import BatchLog
from kcontrol.adapters.spark.state.batches import batch_of
from kcontrol.adapters.spark.state.formats import plan_text, planned_ends
from kcontrol.adapters.spark.state.pinning import is_stray

SETTINGS = json.dumps(
    {"batchWatermarkMs": 0, "batchTimestampMs": 5, "conf": {"spark.sql.shuffle.partitions": "3"}}
)
RETAINED = 4


def test_a_step_is_read_as_it_was_written(tmp_path: Path) -> None:
    log = BatchLog(tmp_path, 2, RETAINED)
    log.open(0)
    assert (log.settings(), log.ids(), log.version) == ({}, {}, 0)
    ids = {0: (("a",), ("b",)), 10: (("c", "d"), ("e", "f"))}
    log.write(1, SETTINGS, ids)
    assert (log.ids(), log.version) == (ids, 1)
    assert log.settings() == {"spark.sql.shuffle.partitions": "3"}
    assert planned_ends(tmp_path / "offsets" / "0") == [1, 1]
    assert not [path for path in tmp_path.rglob("*") if is_stray(path.name)]


def test_partitions_are_in_their_order_however_many_there_are(tmp_path: Path) -> None:
    log = BatchLog(tmp_path, 1, RETAINED)
    log.open(0)
    stores = tuple((f"of {partition}",) for partition in range(12))
    log.write(1, SETTINGS, {0: stores})
    assert log.ids() == {0: stores}


def test_after_a_reset_batches_are_counted_on_and_steps_are_further_ahead(tmp_path: Path) -> None:
    log = BatchLog(tmp_path, 1, RETAINED)
    log.open(0)
    for step in (1, 2, 3):
        log.write(step, SETTINGS, {0: ((f"of {step}",),)})
    log.open(2)
    log.write(6, SETTINGS, {0: (("of 6",),)})
    assert [batch_of(tmp_path, step) for step in (1, 2, 6)] == [0, 1, 2]
    with pytest.raises(FileNotFoundError):
        batch_of(tmp_path, 3)
    again = BatchLog(tmp_path, 1, RETAINED)
    again.open(6)
    assert (again.version, again.ids()) == (3, {0: (("of 6",),)})


def test_as_many_steps_are_kept_as_spark_would_keep(tmp_path: Path) -> None:
    log = BatchLog(tmp_path, 1, RETAINED)
    log.open(0)
    for step in range(1, 11):
        log.write(step, SETTINGS, {0: (("x",),)})
    expected = {str(batch) for batch in range(9 - RETAINED, 10)}
    for name in ("offsets", "commits"):
        assert {path.name for path in (tmp_path / name).iterdir()} == expected


def test_what_is_there_already_is_kept_and_what_is_too_old_goes(tmp_path: Path) -> None:
    for name in ("offsets", "commits"):
        (tmp_path / name).mkdir()
        for batch in range(10):
            (tmp_path / name / str(batch)).write_text(plan_text(SETTINGS, [batch + 1]))
    (tmp_path / "metadata").write_text('{"id":"mine"}')
    log = BatchLog(tmp_path, 1, RETAINED)
    log.open(10)
    assert {path.name for path in (tmp_path / "commits").iterdir()} == {str(batch) for batch in range(5, 10)}
    assert (tmp_path / "metadata").read_text() == '{"id":"mine"}'
    log.open(10)
    assert len(list((tmp_path / "offsets").iterdir())) == RETAINED + 1
