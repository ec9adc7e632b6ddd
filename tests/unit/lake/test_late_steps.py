"""Whoever was replaced adds the step that it had in hand all the same, as long as nothing else was added: what that means to
whoever has the delivery by then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from kcontrol.adapters.lake.delta import DeltaSteps
from kcontrol.adapters.lake.iceberg import IcebergSteps
from kcontrol.adapters.lake.rows import BatchRules
from kcontrol.adapters.lake.target import LakeTarget, StepTable
from kcontrol.core.step.following import PlacedRecords, RecordPlace, StepVerdict
from kcontrol.errors import ReplacedError
from tests.support.iceberg import CATALOG, NAME, describe, iceberg_table, make_catalog

DDL = "n BIGINT"


class _EverybodysTurn:
    def open(self) -> None: ...

    def close(self) -> None: ...

    def take(self) -> bool:
        return True

    def beat(self) -> None: ...


@pytest.fixture(params=["delta", "iceberg"])
def kind(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "iceberg":
        make_catalog(tmp_path)
        describe(tmp_path, put=monkeypatch.setenv)
    return str(request.param)


def _taken(kind: str, path: Path) -> LakeTarget:
    table: StepTable = (
        DeltaSteps(path / "table", "p", "out", DDL)
        if kind == "delta"
        else IcebergSteps(CATALOG, NAME, "p", "out", DDL)
    )
    target = LakeTarget(table, _EverybodysTurn(), "p", BatchRules("json"))
    target.open()
    if target.applied() is None:
        target.begin("log", 0)
    assert target.take() is not None
    return target


def _apply(target: LakeTarget, step: int, follows: int) -> StepVerdict:
    row: PlacedRecords = [(None, json.dumps({"n": step}).encode(), RecordPlace(0, step))]
    return target.apply(step, f"print {step}", 1_000, row, follows).verdict


def _rows(kind: str, path: Path) -> list[int]:
    if kind == "delta":
        return sorted(DeltaTable(str(path / "table")).to_pyarrow_table()["n"].to_pylist())
    with iceberg_table(path) as table:
        return sorted(table.scan().to_arrow()["n"].to_pylist()) if table is not None else []


def test_nothing_is_added_behind_a_step_that_is_void_by_now(kind: str, tmp_path: Path) -> None:
    """Steps 2 and 3 are void, so that 5 follows 1. Whoever brings 5 has looked for void steps in the table when it took the
    delivery: what has come since it has to look at again."""
    late = _taken(kind, tmp_path)
    assert _apply(late, 1, 0) is StepVerdict.NEXT
    heir = _taken(kind, tmp_path)
    assert _apply(late, 2, 1) is StepVerdict.NEXT
    with pytest.raises(ReplacedError, match="another process has added step 2 meanwhile"):
        _apply(heir, 5, 1)
    assert _rows(kind, tmp_path) == [1, 2]
    heir.open()
    held = heir.take()
    assert held is not None
    assert held.step == 2, "which is told, and halts it"


def test_one_that_is_not_void_is_there_and_the_next_one_follows(kind: str, tmp_path: Path) -> None:
    late, heir = _taken(kind, tmp_path), _taken(kind, tmp_path)
    assert _apply(late, 1, 0) is StepVerdict.NEXT
    assert _apply(heir, 1, 0) is StepVerdict.DUPLICATE
    assert _apply(heir, 2, 1) is StepVerdict.NEXT
    assert _rows(kind, tmp_path) == [1, 2]
