"""Tables of Delta Lake that steps can't be delivered to exactly once, and those that were taken back."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kcontrol.adapters.lake.delta import FORGETS, DeltaSteps
from kcontrol.core.step.following import Applied
from kcontrol.errors import DeliveryHaltedError, TargetAwayError

SCHEMA = pa.schema([pa.field("n", pa.int64())])


def _rows(*numbers: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=SCHEMA)


def test_a_table_that_forgets_which_step_it_had_last_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_deltalake(str(path), _rows().schema.empty_table(), configuration={FORGETS: "interval 7 days"})
    with pytest.raises(DeliveryHaltedError, match="could be given them twice: take the property away"):
        DeltaSteps(path, "p", "out").open()


def test_so_is_one_that_is_told_to_forget_while_a_delivery_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "table"
    steps = DeltaSteps(path, "p", "out", "n BIGINT")
    steps.open()
    steps.begin("log", 0)
    assert steps.read() == Applied("p", "log", 0)
    steps.add(Applied("p", "log", 1), 0, iter([_rows(1, 2)]))
    DeltaTable(str(path)).alter.set_table_properties({FORGETS: "interval 7 days"}, raise_if_not_exists=False)
    with pytest.raises(DeliveryHaltedError, match="which steps it has"):
        steps.read()
    assert DeltaTable(str(path)).to_pyarrow_table()["n"].to_pylist() == [1, 2]


def _delivered(path: Path, *steps: int, others: int = 0) -> DeltaSteps:
    """A delivery of these steps, each with a row that has its number. others: commits behind them that are not its own."""
    table = DeltaSteps(path, "p", "out", "n BIGINT")
    table.open()
    if table.read() is None:
        table.begin("log", 0)
    for step in steps:
        table.read()
        table.add(Applied("p", "log", step, f"print {step}"), 0, iter([_rows(step)]))
    for number in range(others):
        DeltaTable(str(path)).alter.set_table_properties({"other": str(number)}, raise_if_not_exists=False)
    return table


def _foreign(path: Path) -> None:
    """A row of another writer."""
    write_deltalake(str(path), pa.Table.from_batches([_rows(7)]), mode="append")


def _version_of(path: Path, step: int) -> int:
    commits = DeltaTable(str(path)).history()
    return next(int(each["version"]) for each in commits if each.get("kcontrol.step") == step)


def _opened(path: Path) -> DeltaSteps:
    table = DeltaSteps(path, "p", "out")
    table.open()
    return table


@pytest.mark.parametrize("others", [0, 120])
def test_a_table_that_was_restored_to_before_its_last_step_halts_instead_of_going_on_without_the_rows(
    tmp_path: Path, others: int
) -> None:
    """RESTORE takes back rows, and not the numbers of transactions."""
    path = tmp_path / "table"
    running = _delivered(path, 1, 2, 3, others=others)
    DeltaTable(str(path)).restore(_version_of(path, 2))
    for table in (running, _opened(path)):
        with pytest.raises(DeliveryHaltedError, match="taken back by a RESTORE since step 3 of output 'out'"):
            table.read()
    DeltaTable(str(path)).alter.set_table_properties({"other": "more"}, raise_if_not_exists=False)
    with pytest.raises(DeliveryHaltedError, match="--resync --adopt"):
        _opened(path).read()

    again = DeltaSteps(path, "p", "out", adopts=True)
    again.open()
    again.forget()
    again.begin("log", 2)
    for step in (3, 4):
        assert again.read() is not None
        again.add(Applied("p", "log", step, f"print {step}"), 0, iter([_rows(step)]))
    for table in (again, _opened(path)):
        assert table.read() == Applied("p", "log", 4, "print 4")
    assert sorted(DeltaTable(str(path)).to_pyarrow_table()["n"].to_pylist()) == [1, 2, 3, 4]


def test_a_table_that_was_restored_to_what_has_its_last_step_goes_on(tmp_path: Path) -> None:
    """Also one that was taken back, and then brought forward again."""
    path = tmp_path / "table"
    running = _delivered(path, 1, 2)
    _foreign(path)
    DeltaTable(str(path)).restore(_version_of(path, 2))
    for table in (running, _opened(path)):
        assert table.read() == Applied("p", "log", 2, "print 2")
    whole = DeltaTable(str(path)).version()
    DeltaTable(str(path)).restore(_version_of(path, 1))
    gone = DeltaTable(str(path)).version()
    with pytest.raises(DeliveryHaltedError, match="taken back by a RESTORE"):
        running.read()
    _foreign(path)
    DeltaTable(str(path)).restore(gone)
    with pytest.raises(DeliveryHaltedError, match="taken back by a RESTORE"):
        _opened(path).read()
    DeltaTable(str(path)).restore(whole)
    for table in (running, _opened(path)):
        assert table.read() == Applied("p", "log", 2, "print 2")
    running.add(Applied("p", "log", 3, "print 3"), 0, iter([_rows(3)]))
    assert sorted(DeltaTable(str(path)).to_pyarrow_table()["n"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE])
def test_a_share_that_goes_away_just_behind_a_commit_is_away_and_has_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = tmp_path / "table"
    table = _delivered(path, 1)
    table.read()
    stat = Path.stat

    def of_a_share(self: Path, **how: Any) -> os.stat_result:
        if self.name == "_delta_log":
            raise OSError(code, os.strerror(code), str(self))
        return stat(self, **how)

    with monkeypatch.context() as away:
        away.setattr(Path, "stat", of_a_share)
        with pytest.raises(TargetAwayError, match=os.strerror(code)):
            table.add(Applied("p", "log", 2, "print 2"), 0, iter([_rows(2)]))
    table.open()
    assert table.read() == Applied("p", "log", 2, "print 2")
    assert sorted(DeltaTable(str(path)).to_pyarrow_table()["n"].to_pylist()) == [1, 2]
