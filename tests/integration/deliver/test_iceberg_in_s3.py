"""A table of Iceberg whose files are in an object store: nothing there is written twice under one name, and the catalog alone
says what counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector

from kcontrol.adapters.lake.iceberg import IcebergSteps
from kcontrol.core.step.following import Applied
from kcontrol.errors import TargetAwayError
from tests.support.iceberg import CATALOG, NAME, describe, make_catalog
from tests.support.s3 import S3Server

SCHEMA = pa.schema([("step", pa.int64())])


def _opened() -> IcebergSteps:
    steps = IcebergSteps(CATALOG, NAME, "orders", "totals", "step BIGINT")
    steps.open()
    if steps.read() is None:
        steps.begin("log", 0)
        steps.read()
    return steps


def _rows(step: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pylist([{"step": step}], SCHEMA)


def _add(steps: IcebergSteps, step: int) -> None:
    """On top of what was read last."""
    steps.add(Applied("orders", "log", step, ""), 5, _rows(step))


@pytest.mark.heavy
def test_its_files_may_be_in_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute, for which Arrow tries to reach a store that is away."""
    make_catalog(tmp_path)
    describe(tmp_path, put=monkeypatch.setenv)
    with S3Server(tmp_path / "store", "lake") as store:
        for name, value in store.for_pyiceberg.items():
            monkeypatch.setenv(f"PYICEBERG_CATALOG__{CATALOG.upper()}__{name}", value)
        late, first = _opened(), _opened()
        for step in (1, 2):
            _add(first, step)
            first.read()
        with pytest.raises(TargetAwayError, match="nothing was committed"):
            _add(late, 1)
        assert late.read() == Applied("orders", "log", 2)
        stored = store.client().get_file_info(FileSelector("lake", recursive=True))
        assert len([each for each in stored if each.path.endswith(".parquet")]) == 3
        store.stop()
        with pytest.raises(TargetAwayError, match=NAME):
            _add(first, 3)
        store.start()
        first.read()
        _add(first, 3)
        assert first.read() == Applied("orders", "log", 3)
