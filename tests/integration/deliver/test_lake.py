"""Committed steps in tables of Delta Lake and Iceberg, and in Parquet files: once, in order, whole; and what can't be done is
said in one sentence."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kcontrol.adapters.lake.iceberg import STEP
from kcontrol.apps.deliver.progress import DeliveryState
from kcontrol.errors import DeliveryHaltedError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lake_lives import LakeLife, rows_of, steps_of
from tests.integration.deliver.lives import (
    Until,
    ended,
    expected_rows,
    live,
    outputs,
    start,
    until_stopped,
    wake,
)
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.iceberg import iceberg_table
from tests.support.processes import until
from tests.support.small_disk import BALLAST, fill, small_disk

STEPS = 6
EVERY = range(1, STEPS + 1)


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    """A log of STEPS steps, which no test changes. Step 4 has no rows."""
    maker = StepsMaker(settings, topic_factory)
    for step in EVERY:
        maker.step(step, {} if step == 4 else outputs(step))
    return maker


@pytest.fixture(params=["delta", "parquet", "iceberg"])
def life(log: StepsMaker, tmp_path: Path, request: pytest.FixtureRequest) -> LakeLife:
    return LakeLife(log.settings, request.param, tmp_path / "rows", until=STEPS).fresh()


def _rows(*steps: int) -> list[tuple[int, int, int]]:
    return expected_rows([step for step in steps if step != 4])


def _check(life: LakeLife, *steps: int) -> None:
    assert rows_of(life.kind, life.path) == _rows(*steps)
    assert steps_of(life.kind, life.path) == list(steps)


def test_every_step_is_there_once_with_its_number(life: LakeLife) -> None:
    progress = live(life)
    _check(life, *EVERY)
    assert (progress.facts.steps, progress.facts.rows) == (STEPS, len(_rows(*EVERY)))
    live(dataclasses.replace(life, ddl=None))
    _check(life, *EVERY)


def test_deliverers_may_die_at_an_arrow(life: LakeLife) -> None:
    """The others are in test_lake_many_lives.py."""
    died = start(dataclasses.replace(life, at="made", nth=4))
    assert ended(died) == -signal.SIGKILL
    assert rows_of(life.kind, life.path) == _rows(1)
    live(life)
    _check(life, *EVERY)


def test_a_zombie_adds_nothing_any_more(life: LakeLife) -> None:
    """It stands still in the midst of a step while another goes on to the end."""
    zombie = start(dataclasses.replace(life, at="made", nth=4, signal=signal.SIGSTOP))
    until_stopped(zombie)
    live(life)
    _check(life, *EVERY)
    wake(zombie)
    assert ended(zombie) == 0
    _check(life, *EVERY)


def test_a_step_with_a_bad_row_is_not_there_at_all(
    life: LakeLife, settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    maker = StepsMaker(settings, topic_factory)
    maker.step(1, outputs(1))
    maker.step(2, {"delays": {0: [*outputs(2)["delays"][0], b'{"step": 2, "key": "no number"}']}})
    life = dataclasses.replace(life, settings=maker.settings, until=2)
    with pytest.raises(
        DeliveryHaltedError,
        match=r"step 2, partition 0, offset \d+: column 'key' is int32 and can't hold 'no number': it is no whole number",
    ):
        live(life)
    _check(life, 1)
    progress = live(dataclasses.replace(life, skips=True))
    assert (progress.facts.rows, progress.facts.bad_rows) == (6, 1)
    assert steps_of(life.kind, life.path) == [1, 2]


def test_a_full_disk_is_said_and_waited_out(life: LakeLife, tmp_path: Path) -> None:
    """Once there is room it goes on by itself, and nothing is lost or there twice."""
    with small_disk(tmp_path / "small", 4_096) as disk, ThreadPoolExecutor(1) as pool:
        life = dataclasses.replace(life, path=disk / "rows").fresh()
        live(dataclasses.replace(life, until=2))
        fill(disk)
        progress = Until(life.until)
        running = pool.submit(live, life, progress)
        try:
            until(lambda: progress.facts.errors > 3 or running.done(), "it has tried four times", 120)
            assert not running.done()
            said = progress.facts
            assert said.state is DeliveryState.AWAY
            assert "disk is full" in said.reason or "No space left" in said.reason
            assert "\n" not in said.reason
            assert rows_of(life.kind, life.path) == _rows(1, 2)
        finally:
            (disk / BALLAST).unlink()
        running.result(120)
        assert progress.facts.state is DeliveryState.STOPPED
        _check(life, *EVERY)


def test_a_share_that_goes_away_just_behind_a_commit_is_waited_out(
    log: StepsMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the commits of a table of Delta Lake lie is looked at once more behind each."""
    life = LakeLife(log.settings, "delta", tmp_path / "rows", until=STEPS).fresh()
    commit = life.path / "_delta_log" / f"{3:020}.json"
    stat, failed = Path.stat, []

    def fails_once(self: Path, **how: Any) -> os.stat_result:
        if self.name == "_delta_log" and not failed and commit.exists():
            failed.append(str(self))
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(self))
        return stat(self, **how)

    monkeypatch.setattr(Path, "stat", fails_once)
    progress = live(life)
    assert (len(failed), progress.facts.errors) == (1, 1)
    _check(life, *EVERY)


def test_void_steps_halt_it(life: LakeLife, settings: ClusterSettings, topic_factory: TopicFactory) -> None:
    maker = StepsMaker(settings, topic_factory)
    for step in (1, 2):
        maker.step(step, outputs(step))
    life = dataclasses.replace(life, settings=maker.settings, until=2)
    live(life)
    maker.reset(3, to_step=1)
    maker.step(4, outputs(4))
    life = dataclasses.replace(life, until=4)
    with pytest.raises(DeliveryHaltedError, match="of which 2 to 2 are void since a reset"):
        live(life)
    # As the page says: back to the step that the reset went to, then on.
    if life.kind == "parquet":
        (life.path / "kcontrol_step=2" / "_manifest.json").unlink()
        (life.path / "kcontrol_step=2" / "part-0.parquet").unlink()
        (life.path / "kcontrol_step=2").rmdir()
    elif life.kind == "iceberg":
        with iceberg_table(life.path) as table:
            first = next(
                each for each in table.snapshots() if each.summary.additional_properties.get(STEP) == "1"
            )
            table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    else:
        table = DeltaTable(str(life.path))
        version = next(each["version"] for each in table.history() if each.get("kcontrol.step") == 1)
        table.restore(version)
        options = dataclasses.replace(life.options, resync=True, start="2")
        life = dataclasses.replace(life, adopts=True, options=options)
    live(life)
    assert rows_of(life.kind, life.path) == expected_rows([1, 4])


def test_nothing_is_added_behind_a_void_step_that_a_zombie_adds_late(
    life: LakeLife, settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    """It had step 2 in hand when the pipeline was reset, and its heir has found step 1 there."""
    maker = StepsMaker(settings, topic_factory)
    for step in (1, 2):
        maker.step(step, outputs(step))
    life = dataclasses.replace(life, settings=maker.settings, until=4)
    zombie = start(dataclasses.replace(life, until=2, at="made", nth=4, signal=signal.SIGSTOP))
    until_stopped(zombie)
    maker.reset(3, to_step=1)
    progress = Until(life.until)
    with ThreadPoolExecutor(1) as pool:
        heir = pool.submit(live, life, progress)
        until(
            lambda: progress.facts.state is DeliveryState.RUNNING or heir.done(), "it has the delivery", 120
        )
        wake(zombie)
        if life.kind != "parquet":
            assert ended(zombie) == 0
        maker.step(4, outputs(4))
        if life.kind == "parquet":
            heir.result(120)
            assert ended(zombie) == 0, "it was refused, and has found the rest there"
            assert rows_of(life.kind, life.path) == expected_rows([1, 4])
            return
        with pytest.raises(DeliveryHaltedError, match="of which 2 to 2 are void since a reset"):
            heir.result(120)
    _check(life, 1, 2)


def _other_log(life: LakeLife) -> None:
    if life.kind == "parquet":
        path = life.path / "_kcontrol" / "delivery.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "log_id": "other"}))
        return
    name = f"kcontrol.{PIPELINE}.delays"
    if life.kind == "iceberg":
        with iceberg_table(life.path) as table, table.transaction() as change:
            kept = json.loads(table.properties[name])
            change.set_properties({name: json.dumps({**kept, "log_id": "other"})})
    else:
        table = DeltaTable(str(life.path))
        kept = json.loads(table.metadata().configuration[name])
        table.alter.set_table_properties({name: json.dumps({**kept, "log_id": "other"})}, False)


def test_another_log_halts(life: LakeLife) -> None:
    live(dataclasses.replace(life, until=3))
    _other_log(life)
    with pytest.raises(DeliveryHaltedError, match="holds step 3 of pipeline 'flights', log other"):
        live(life)
    _check(life, 1, 2, 3)


def test_a_table_that_goes_back_under_a_delivery_is_a_gap(log: StepsMaker, tmp_path: Path) -> None:
    life = LakeLife(log.settings, "parquet", tmp_path / "rows", until=STEPS)
    stopped = start(dataclasses.replace(life, at="committed", nth=5, signal=signal.SIGSTOP))
    until_stopped(stopped)
    for step in (4, 5):
        for each in (life.path / f"kcontrol_step={step}").iterdir():
            each.unlink()
        (life.path / f"kcontrol_step={step}").rmdir()
    wake(stopped)
    assert ended(stopped) != 0
    _check(life, 1, 2, 3)
    live(life)
    _check(life, *EVERY)


def test_other_writers_may_commit_to_the_table_of_delta_lake(log: StepsMaker, tmp_path: Path) -> None:
    """And a table of one's own may have properties, partitions and rows already."""
    path = tmp_path / "rows"
    schema = pa.schema([("step", pa.int64()), ("key", pa.int32()), ("value", pa.int64())])
    row = pa.table({"step": [0], "key": [0], "value": [0]}, schema=schema)
    write_deltalake(path, row, partition_by=["key"])
    life = LakeLife(log.settings, "delta", path, until=3, ddl=None)
    live(life)
    write_deltalake(path, row, mode="append")
    DeltaTable(str(path)).optimize.compact()
    DeltaTable(str(path)).create_checkpoint()
    live(dataclasses.replace(life, until=STEPS))
    table = DeltaTable(str(path)).to_pyarrow_table()
    assert sorted((each["step"], each["key"], each["value"]) for each in table.to_pylist()) == [
        *[(0, 0, 0)] * 2,
        *_rows(*EVERY),
    ]
    assert steps_of("delta", path) == list(EVERY)


def test_a_table_of_delta_lake_that_was_restored_does_not_go_on_without_the_rows(
    log: StepsMaker, tmp_path: Path
) -> None:
    life = LakeLife(log.settings, "delta", tmp_path / "rows", until=5)
    live(life)
    table = DeltaTable(str(life.path))
    table.restore(next(each["version"] for each in table.history() if each.get("kcontrol.step") == 2))
    whole = dataclasses.replace(life, until=STEPS)
    with pytest.raises(DeliveryHaltedError, match="taken back by a RESTORE since step 5"):
        live(whole)
    assert rows_of(life.kind, life.path) == _rows(1, 2)
    options = dataclasses.replace(life.options, resync=True, start="3")
    live(dataclasses.replace(whole, adopts=True, options=options))
    assert rows_of(life.kind, life.path) == _rows(*EVERY)


def test_what_is_not_fit_halts_before_anything_is_written(life: LakeLife, tmp_path: Path) -> None:
    def refused(sentence: str, **changes: object) -> None:
        with pytest.raises(DeliveryHaltedError, match=sentence):
            live(dataclasses.replace(life, **changes))  # type: ignore[arg-type]

    refused("give its columns with --create", ddl=None)
    if life.kind != "iceberg":
        taken = tmp_path / "taken"
        taken.mkdir()
        (taken / "letter.txt").write_text("dear reader")
        refused("give another directory", path=taken)
        refused("Not a directory|not empty", path=taken / "letter.txt")
    live(dataclasses.replace(life, until=1))
    refused("has other columns than --create says", ddl=f"{life.ddl}, more STRING")
    _check(life, 1)


def test_all_of_it_again_needs_an_empty_table(life: LakeLife) -> None:
    live(life)
    again = dataclasses.replace(life, options=dataclasses.replace(life.options, resync=True))
    with pytest.raises(DeliveryHaltedError, match="not empty, so nothing begins anew"):
        live(again)
    if life.kind == "delta":
        DeltaTable(str(life.path)).delete()
    elif life.kind == "iceberg":
        with iceberg_table(life.path) as table:
            table.delete()
    if life.kind != "parquet":
        live(again)
        assert rows_of(life.kind, life.path) == _rows(*EVERY)
