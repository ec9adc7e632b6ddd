"""Values that are sent to a database are taken by it: what it would refuse was refused before, as a bad row."""

from __future__ import annotations

from kcontrol.adapters.postgres.rows import RowMaker, RowRules
from kcontrol.wire.fields import BadRowError
from tests.support.odd_json import COLUMNS, NUMBERS, TEXTS
from tests.support.postgres import Database


def test_what_is_no_bad_row_is_taken(database: Database) -> None:
    taken = 0
    for column in COLUMNS:
        maker = RowMaker([column], RowRules("json"))
        for value in (*NUMBERS, *TEXTS):
            try:
                (text,) = maker.make(None, f'{{"c": {value}}}'.encode()).texts
            except BadRowError:
                continue
            # An address of the net is no odd number: nothing is known here of what such a type takes.
            if column.type_name != "inet":
                database.run(f"SELECT %s::{column.declared}", text)
                taken += 1
    assert taken > 50
