"""Values of JSON that few write and anybody may: numbers of any size, and texts with halves of surrogate pairs."""

from __future__ import annotations

from kcontrol.adapters.postgres.columns import Column

NUMBERS = (
    *("1e-999999999", "-1e-999999999", "1e999999999", "0e-999999999", "0e999999999", "-0e5"),
    *("1e9999999999999999999999", "1e-9999999999999999999999", "0e9999999999999999999999"),
    *("1e400", "1e-400", "1e39", "1e-46", "1e5", "99.995", "99.994", "999.995"),
    *(
        "1." + "0" * 20_000,
        "1." + "1" * 60,
        "9" * 5_000,
        "9" * 5_000 + ".5",
        "9" * 36 + ".994",
        "9" * 36 + ".995",
    ),
)
TEXTS = (
    *('"\\ud800"', '"a\\udfff"', '"\\ude00\\ud83d"', '"\\ud83d\\ude00"'),
    *('{"\\ud800": 1}', '{"a": ["\\udc00"]}', "[" * 700 + "]" * 700),
)
_DECLARED = {"numeric(5,2)": (5, 2), "numeric(38,2)": (38, 2), "numeric(2,5)": (2, 5)}
COLUMNS = (
    *(Column("c", name, name) for name in ("int8", "float4", "float8", "numeric", "text", "json", "jsonb")),
    *(Column("c", "numeric", name, (p << 16 | s) + 4) for name, (p, s) in _DECLARED.items()),
    *(Column("c", name, name) for name in ("bytea", "date", "uuid", "timestamptz", "inet")),
)
"""Of PostgreSQL."""
