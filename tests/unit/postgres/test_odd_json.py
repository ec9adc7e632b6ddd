"""Values of JSON that are no value of a column, each a bad row: none ends the process, or takes time or memory to say so."""

from __future__ import annotations

import pytest

from kcontrol.adapters.postgres.columns import Column
from kcontrol.adapters.postgres.rows import RowMaker, RowRules
from kcontrol.wire.fields import BadRowError
from tests.support.odd_json import COLUMNS, NUMBERS, TEXTS


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.declared)
@pytest.mark.parametrize("value", [*NUMBERS, *TEXTS])
def test_an_odd_value_is_a_bad_row_or_one_that_can_be_sent(value: str, column: Column) -> None:
    maker = RowMaker([column], RowRules("json"))
    try:
        row = maker.make(None, f'{{"c": {value}}}'.encode())
    except BadRowError:
        return
    (text,) = row.texts
    assert text is not None
    assert len(text.encode()) <= len(value) + 20


def test_halves_of_surrogates_are_told() -> None:
    text = next(column for column in COLUMNS if column.declared == "text")
    for value in (b'{"c": "\\ud800"}', b'{"c": "\\udfff."}'):
        with pytest.raises(
            BadRowError, match=r"column 'c' is text and can't hold .*half of a pair of surrogates"
        ):
            RowMaker([text], RowRules("json")).make(None, value)


def test_a_key_of_several_columns_is_as_strict() -> None:
    columns = [Column("a", "numeric", "numeric"), Column("b", "text", "text")]
    maker = RowMaker(columns, RowRules("json", keys=("a", "b")))
    for key in (b'{"a": 1e9999999999999999999999, "b": "x"}', b'{"a": %s, "b": "x"}' % (b"9" * 5_000)):
        with pytest.raises(BadRowError, match=r"the record's key .* can't be read"):
            maker.make(key, None)
