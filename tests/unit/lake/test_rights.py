"""Who may not write where a table lies is told so at once: it does not pass by itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from kcontrol.adapters.lake.delta import DeltaSteps
from kcontrol.adapters.lake.iceberg import IcebergSteps
from kcontrol.adapters.lake.parquet import ParquetSteps
from kcontrol.adapters.lake.target import StepTable
from kcontrol.core.step.following import Applied
from kcontrol.errors import DeliveryHaltedError
from tests.support.iceberg import CATALOG, NAME, describe, make_catalog
from tests.support.rights import public_directory, without_privileges

DDL = "n BIGINT"
KINDS: dict[str, Callable[[Path], StepTable]] = {
    "delta": lambda path: DeltaSteps(path / "rows", "p", "out", DDL),
    "parquet": lambda path: ParquetSteps(path / "rows", "p", "out", DDL),
    "iceberg": lambda path: IcebergSteps(CATALOG, NAME, "p", "out", DDL),
}
pytestmark = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def place() -> Iterator[Path]:
    with public_directory() as path:
        yield path


@pytest.fixture
def table(kind: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> StepTable:
    """Nothing is made of it yet but, for Iceberg, its catalog."""
    if kind == "iceberg":
        make_catalog(place)
        describe(place, put=monkeypatch.setenv)
    return KINDS[kind](place)


def _rows() -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([{"n": 1}], pa.schema([("n", pa.int64())]))


def _add_one(table: StepTable) -> None:
    table.clear()
    table.add(Applied("p", "log", 1, "print"), 0, _rows())


def _take_rights(place: Path) -> None:
    for each, _, files in os.walk(place):
        Path(each).chmod(0o555)
        for name in files:
            (Path(each) / name).chmod(0o444)


def _told(error: pytest.ExceptionInfo[DeliveryHaltedError]) -> None:
    text = str(error.value)
    assert "ermission denied" in text or "readonly" in text, text
    assert "\n" not in text


def test_a_table_that_can_not_be_made(kind: str, place: Path, table: StepTable) -> None:
    _take_rights(place)
    with without_privileges(), pytest.raises(DeliveryHaltedError) as error:
        table.open()
    _told(error)
    assert not (place / "rows").exists()


def test_one_that_can_only_be_read(kind: str, place: Path, table: StepTable) -> None:
    """Its rights were taken while the delivery went on."""
    table.open()
    table.read()
    table.begin("log", 0)
    table.read()
    _take_rights(place)
    with without_privileges(), pytest.raises(DeliveryHaltedError) as error:
        _add_one(table)
    _told(error)
    assert (held := table.read()) is not None
    assert held.step == 0
