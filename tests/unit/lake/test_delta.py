"""Tables of Delta Lake that steps can't be delivered to exactly once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kcontrol.adapters.lake.delta import FORGETS, DeltaSteps
from kcontrol.core.step.following import Applied
from kcontrol.errors import DeliveryHaltedError

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
