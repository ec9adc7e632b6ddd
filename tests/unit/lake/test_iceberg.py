"""Tables of Iceberg, with a catalog in SQLite: a step is committed on top of what was read, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.table import Table

from kcontrol.adapters.lake.iceberg import STEP, IcebergSteps
from kcontrol.adapters.lake.rows import BatchMaker, BatchRules
from kcontrol.core.step.following import Applied, RecordPlace
from kcontrol.errors import ConfigurationError, DeliveryHaltedError, TargetAwayError
from tests.support.iceberg import (
    CATALOG,
    NAME,
    catalog_of,
    describe,
    iceberg_steps,
    iceberg_table,
    make_catalog,
)

COLUMNS = "step BIGINT NOT NULL, key INT, value BIGINT"


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a catalog without tables, which is what pyiceberg knows as `life`."""
    make_catalog(tmp_path)
    describe(tmp_path, put=monkeypatch.setenv)
    return tmp_path


def _steps(ddl: str | None = COLUMNS, **more: bool) -> IcebergSteps:
    return IcebergSteps(CATALOG, NAME, "orders", "totals", ddl, **more)


def _opened() -> IcebergSteps:
    """With a delivery that has begun."""
    steps = _steps()
    steps.open()
    if steps.read() is None:
        steps.begin("log", 0)
    steps.read()
    return steps


def _rows(step: int) -> Iterator[pa.RecordBatch]:
    schema = pa.schema([("step", pa.int64(), False), ("key", pa.int32()), ("value", pa.int64())])
    yield pa.RecordBatch.from_pylist([{"step": step, "key": 1, "value": 2}], schema)


def _add(steps: IcebergSteps, step: int) -> None:
    """On top of what was read last."""
    steps.add(Applied("orders", "log", step, f"print {step}"), 5, _rows(step))


def _add_all(steps: IcebergSteps, *numbers: int) -> None:
    for step in numbers:
        steps.read()
        _add(steps, step)


def _table(path: Path) -> Table:
    with iceberg_table(path) as table:
        assert table is not None
        return table


def test_whoever_has_read_before_another_commit_commits_nothing_and_tries_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library would put a refused step on top of the new snapshot, four times, and so have it there twice."""
    late, first = _opened(), _opened()
    late.read()
    _add_all(first, 1)
    tries = 0
    compare = MetastoreCatalog._update_and_stage_table

    def counted(*arguments: object) -> object:
        nonlocal tries
        tries += 1
        return compare(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(MetastoreCatalog, "_update_and_stage_table", counted)
    with pytest.raises(TargetAwayError, match="nothing was committed: Requirement failed: branch main"):
        _add(late, 1)
    assert tries == 1
    assert iceberg_steps(path) == [1]
    assert _table(path).scan().to_arrow().num_rows == 1


def test_a_table_with_retries_of_its_own_keeps_them_and_they_are_not_used(path: Path) -> None:
    late, first = _opened(), _opened()
    with _table(path).transaction() as change:
        change.set_properties({"commit.retry.num-retries": "7"})
    late.read()
    _add_all(first, 1)
    with pytest.raises(TargetAwayError, match="nothing was committed"):
        _add(late, 1)
    assert _table(path).properties["commit.retry.num-retries"] == "7"
    assert iceberg_steps(path) == [1]


def test_what_is_in_the_hands_of_an_older_delivery_is_of_nobody(path: Path) -> None:
    late = _opened()
    late.read()
    again = _opened()
    again.forget()
    again.begin("log", 0)
    with pytest.raises(TargetAwayError, match="nothing was committed"):
        _add(late, 1)
    with pytest.raises(TargetAwayError, match="begun anew by another process"):
        late.read()
    assert iceberg_steps(path) == []


def test_its_beginning_is_refused_to_the_second_of_two() -> None:
    one, two = _steps(), _steps()
    for each in (one, two):
        each.open()
        assert each.read() is None
    one.begin("log", 0)
    with pytest.raises(TargetAwayError, match="nothing was committed"):
        two.begin("log", 7)
    assert two.read() == Applied("orders", "log", 0)


def test_the_last_step_is_known_when_snapshots_have_expired_and_others_have_written(path: Path) -> None:
    steps = _opened()
    _add_all(steps, 1, 2, 3)
    table = _table(path)
    table.append(pa.Table.from_batches(_rows(0)))
    old = [each.snapshot_id for each in table.snapshots() if each != table.current_snapshot()]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    assert steps.read() == Applied("orders", "log", 3, "print 3")
    _add_all(steps, 4)
    assert steps.read() == Applied("orders", "log", 4, "print 4")


def test_a_table_that_was_rolled_back_has_the_step_that_it_was_rolled_back_to(path: Path) -> None:
    steps = _opened()
    _add_all(steps, 1, 2, 3)
    _roll_back(path, "1")
    assert steps.read() == Applied("orders", "log", 1, "print 1")
    _add_all(steps, 4)
    assert iceberg_steps(path) == [1, 4]


def test_a_table_that_was_rolled_back_to_before_the_delivery_halts_it(path: Path) -> None:
    steps = _steps()
    steps.open()
    _table(path).append(pa.Table.from_batches(_rows(0)))
    before = _table(path).current_snapshot()
    assert before is not None
    steps.read()
    steps.begin("log", 0)
    _add_all(steps, 1)
    _table(path).manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    with pytest.raises(
        DeliveryHaltedError, match="taken back to before the delivery of output 'totals' to it began"
    ):
        steps.read()
    # Also when nothing else tells of it any more.
    late = [each.snapshot_id for each in _table(path).snapshots() if each.snapshot_id != before.snapshot_id]
    _table(path).maintenance.expire_snapshots().by_ids(late).commit()
    with pytest.raises(DeliveryHaltedError, match="and held step 1"):
        steps.read()


def test_a_step_without_rows_is_a_snapshot_too(path: Path) -> None:
    steps = _opened()
    steps.add(Applied("orders", "log", 1, "nothing"), 5, iter(()))
    assert steps.read() == Applied("orders", "log", 1, "nothing")
    assert iceberg_steps(path) == [1]


def test_what_a_batch_raises_comes_through_and_nothing_is_committed(path: Path) -> None:
    def bad() -> Iterator[pa.RecordBatch]:
        yield from _rows(1)
        raise DeliveryHaltedError("a bad row")

    steps = _opened()
    with pytest.raises(DeliveryHaltedError, match=r"^a bad row$"):
        steps.add(Applied("orders", "log", 1), 5, bad())
    assert iceberg_steps(path) == []


def test_values_of_all_types_are_read_as_they_were(path: Path) -> None:
    steps = _steps(
        "t STRING, i TINYINT, d DECIMAL(5,2), b BINARY, at TIMESTAMP, l ARRAY<INT>, m MAP<STRING, DOUBLE>, s STRUCT<x: DATE>"
    )
    maker = BatchMaker("here", steps.open(), BatchRules("json"))
    value = b"""{"t": "a", "i": 3, "d": 1.25, "b": "AQI=", "at": "2026-01-02T03:04:05Z", "l": [1, null],
        "m": {"x": 0.5}, "s": {"x": "2026-01-02"}}"""
    steps.read()
    steps.begin("log", 0)
    steps.read()
    rows = maker.batches(1, [(None, value, RecordPlace(0, 0))], lambda: None)
    steps.add(Applied("orders", "log", 1), 5, rows)
    (found,) = _table(path).scan().to_arrow().to_pylist()
    assert (found["t"], found["i"], found["d"], found["b"]) == ("a", 3, Decimal("1.25"), b"\x01\x02")
    assert (found["l"], found["m"], str(found["s"]["x"])) == ([1, None], [("x", 0.5)], "2026-01-02")
    assert found["at"].isoformat() == "2026-01-02T03:04:05+00:00"


def _roll_back(path: Path, step: str) -> None:
    table = _table(path)
    snapshot = next(each for each in table.snapshots() if each.summary and each.summary.get(STEP) == step)
    table.manage_snapshots().rollback_to_snapshot(snapshot.snapshot_id).commit()


def test_what_is_not_fit_is_said_in_a_sentence(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        DeliveryHaltedError, match="there is no such table: make one, or give its columns with --create"
    ):
        _steps(None).open()
    _steps().open()
    with pytest.raises(
        DeliveryHaltedError, match="has other columns than --create says: it has step int64 not null, key"
    ):
        _steps("step INT").open()
    with catalog_of(path) as catalog:
        schema = pa.schema([("step", pa.int64())])
        catalog.create_table("shop.parts", schema).update_spec().add_identity("step").commit()
    with pytest.raises(
        DeliveryHaltedError, match="is partitioned, which pyiceberg can't write to in a stream"
    ):
        IcebergSteps(CATALOG, "shop.parts", "orders", "totals").open()
    with pytest.raises(ConfigurationError, match="pyiceberg knows no catalog 'sea': describe it in"):
        IcebergSteps("sea", NAME, "orders", "totals")
    monkeypatch.setenv("PYICEBERG_CATALOG__SEA__TYPE", "glue")
    with pytest.raises(
        ConfigurationError, match="catalog 'sea' is of type glue: kcontrol deliver takes those of type sql"
    ):
        IcebergSteps("sea", NAME, "orders", "totals")


@pytest.mark.parametrize(
    ("uri", "kind", "sentence"),
    [
        ("sqlite:////nowhere/catalog.db", DeliveryHaltedError, "unable to open database file"),
        ("sqlite:///{path}/empty.db", DeliveryHaltedError, "no such table: iceberg_tables"),
        ("postgresql+psycopg://nobody@127.0.0.1:1/none?connect_timeout=2", TargetAwayError, "127.0.0.1"),
        ("nosuch://x", DeliveryHaltedError, "nosuch"),
    ],
)
def test_a_catalog_that_is_gone_is_said_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, kind: type[Exception], sentence: str
) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__LIFE__URI", uri.format(path=path))
    with pytest.raises(kind, match=sentence):
        _steps().open()
