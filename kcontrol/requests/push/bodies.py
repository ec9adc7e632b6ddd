"""Rows out of a body: JSON by lines or as an array, CSV, Avro or Parquet. All of them or none, and the first that is wrong is
named.

A value of JSON stays as it was written, with each digit. The others become JSON, and are then held against the schema as if
they had come as it. Of CSV the first line names the fields, an empty cell is null.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from threading import Lock
from typing import Any

from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.avro_file import avro_rows
from kcontrol.requests.push.kinds import RowKind, object_of
from kcontrol.requests.push.limits import OversizedPushError, Rules
from kcontrol.requests.push.parquet_rows import parquet_rows
from kcontrol.wire.exponents import LARGE
from kcontrol.wire.surrogates import HALF, has_half, may_have_half

NDJSON, JSON, CSV = "application/x-ndjson", "application/json", "text/csv"
AVRO, PARQUET = "application/avro", "application/vnd.apache.parquet"
MEDIA_TYPES = {
    NDJSON: NDJSON,
    "application/ndjson": NDJSON,
    "application/jsonl": NDJSON,
    JSON: JSON,
    CSV: CSV,
    AVRO: AVRO,
    "application/vnd.apache.avro": AVRO,
    "avro/binary": AVRO,
    PARQUET: PARQUET,
}
"""What a body may be said to be, and what it is then."""

FORMATS = tuple(dict.fromkeys(MEDIA_TYPES.values()))

MAX_NUMBER_CHARACTERS = 1_000
"""Spark's reader takes no longer ones."""
_LARGE_EXPONENT = re.compile(LARGE)
_SHOWN = 60
_SPACE = " \t\r\n"
_CELLS = Lock()
_TOO_LONG = "field larger than field limit"


@dataclass(frozen=True, slots=True)
class InputRow:
    """A row to be written. key: None for none."""

    key: bytes | None
    value: bytes


class BadRowsError(ConfigurationError):
    """Rows of a request, or the file that they are in, are not what they must be."""


def rows_of(body: bytes, media_type: str, rules: Rules) -> list[InputRow]:
    """media_type: of MEDIA_TYPES. Raises OversizedPushError, or BadRowsError naming the row, counted from 1."""
    try:
        return _rows_of(body, media_type, rules)
    except OversizedPushError:
        raise
    except ConfigurationError as error:
        raise BadRowsError(str(error)) from error


def _rows_of(body: bytes, media_type: str, rules: Rules) -> list[InputRow]:
    found: list[InputRow] = []
    for number, value in enumerate(_values_of(body, MEDIA_TYPES[media_type], rules), 1):
        if number > rules.limits.rows:
            raise rules.too_many()
        found.append(_row(number, value, rules))
    if not found:
        raise ConfigurationError(f"{rules.where}: there are no rows in the body")
    return found


def _values_of(body: bytes, kind: str, rules: Rules) -> Iterator[str]:
    """Each row, as JSON."""
    if kind in _PACKED:
        return _of_size(_PACKED[kind](body, rules), rules)
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{rules.where}: byte {error.start} of the rows is not UTF-8: send them in UTF-8"
        ) from error
    return {NDJSON: _lines, JSON: _elements, CSV: _cells}[kind](text, rules)


_PACKED = {AVRO: avro_rows, PARQUET: parquet_rows}


def _of_size(values: Iterator[str], rules: Rules) -> Iterator[str]:
    """A few bytes can be many rows, which no limit of bodies bounds."""
    total = 0
    for value in values:
        total += len(value)
        if total > rules.limits.unpacked_bytes:
            raise rules.too_large("as JSON the rows have")
        yield value


def content_of(rows: Sequence[InputRow]) -> str:
    """SHA-256 of all rows, in hexadecimal."""
    found = hashlib.sha256()
    for row in rows:
        for part in (row.key, row.value):
            found.update(b"-" if part is None else b"%d:" % len(part) + part)
    return found.hexdigest()


def _row(number: int, text: str, rules: Rules) -> InputRow:
    value = _parsed(number, text, rules)
    if rules.kind is not None:
        why = rules.kind.wrong(value)
    else:
        why = "" if rules.raw or isinstance(value, dict) else "is no JSON object"
    if why:
        raise ConfigurationError(f"{rules.where}: row {number} {why}; nothing was written")
    if not rules.raw and may_have_half(text):
        _refuse_halves(number, value, rules)
    row = InputRow(_key(number, value, rules), text.encode())
    size = len(row.value) + len(row.key or b"")
    if size > rules.limits.row_bytes:
        raise OversizedPushError(
            f"{rules.where}: row {number} has {size} bytes, {rules.limits.row_bytes} are the most; nothing was written"
        )
    return row


def _refuse_halves(number: int, value: dict[str, Any], rules: Rules) -> None:
    """Spark would put a question mark in place of each."""
    for name, inner in value.items():
        if has_half([name, inner]):
            raise ConfigurationError(
                f"{rules.where}: row {number} has {HALF} in the field {name[:_SHOWN]!r}, which is no character; nothing was "
                "written"
            )


def _key(number: int, value: Any, rules: Rules) -> bytes | None:
    if not rules.key:
        return None
    found = value.get(rules.key) if isinstance(value, dict) else None
    if isinstance(found, bool):
        found = str(found).lower()
    if not isinstance(found, str | int):
        raise ConfigurationError(
            f"{rules.where}: row {number} has no text or whole number in the field {rules.key!r}, of which its key is made; "
            "nothing was written"
        )
    try:
        return str(found).encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{rules.where}: row {number} has {HALF} in the field {rules.key!r}, of which its key is "
            "made; nothing was written"
        ) from error


def _parsed(number: int, text: str, rules: Rules) -> Any:
    try:
        text.encode()
        return json.loads(
            text, parse_float=_decimal, parse_int=_whole, parse_constant=_no_json, object_pairs_hook=object_of
        )
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise _no_row(number, error, rules) from error


def _no_row(number: int, error: Exception, rules: Rules) -> ConfigurationError:
    return ConfigurationError(
        f"{rules.where}: row {number} is not JSON ({str(error)[:200]}); nothing was written"
    )


def _decimal(text: str) -> Decimal:
    if _LARGE_EXPONENT.search(text):
        raise ValueError("a number with an exponent of six digits or more")
    return Decimal(_of_length(text))


def _whole(text: str) -> int:
    return int(_of_length(text))


def _of_length(text: str) -> str:
    if len(text) > MAX_NUMBER_CHARACTERS:
        raise ValueError(f"a number of {len(text)} characters, {MAX_NUMBER_CHARACTERS} are the most")
    return text


def _no_json(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _lines(text: str, _rules: Rules) -> Iterator[str]:
    for line in text.split("\n"):
        stripped = line.strip(_SPACE)
        if stripped:
            yield stripped


def _elements(text: str, rules: Rules) -> Iterator[str]:
    """Of an array, each as it was written."""
    at = _behind_space(text, 0)
    if not text.startswith("[", at):
        raise ConfigurationError(
            f"{rules.where}: a body of {JSON} must be an array of rows; single objects by lines are {NDJSON}"
        )
    decoder, at, number = json.JSONDecoder(), _behind_space(text, at + 1), 1
    if text.startswith("]", at):
        return
    while True:
        try:
            _, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise _no_row(number, error, rules) from error
        yield text[at:end]
        at, number = _behind_space(text, end), number + 1
        if text.startswith("]", at):
            break
        if not text.startswith(",", at):
            raise ConfigurationError(
                f"{rules.where}: a comma or ] is missing behind row {number - 1}; nothing was written"
            )
        at = _behind_space(text, at + 1)
    if _behind_space(text, at + 1) < len(text):
        raise ConfigurationError(f"{rules.where}: something follows the array; nothing was written")


def _behind_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _cells(text: str, rules: Rules) -> Iterator[str]:
    if rules.kind is None:
        raise ConfigurationError(
            f"{rules.where}: CSV needs the types of its fields, which are not known: send JSON"
        )
    _expect_cells_of(rules.limits.row_bytes)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(reader, [])
        for name in names:
            if name not in rules.kind.fields:
                raise ConfigurationError(
                    f"{rules.where}: the first line of the CSV {rules.kind.unknown(name)}"
                )
            if names.count(name) > 1:
                raise ConfigurationError(
                    f"{rules.where}: the first line of the CSV has the field {name!r} twice"
                )
        number = 0
        for cells in reader:
            if not cells:
                continue
            number += 1
            if len(cells) != len(names):
                raise ConfigurationError(
                    f"{rules.where}: row {number} (line {reader.line_num}) has {len(cells)} cells, the first line names "
                    f"{len(names)}; nothing was written"
                )
            pairs = (_pair(name, cell, rules.kind) for name, cell in zip(names, cells, strict=True) if cell)
            yield "{" + ",".join(pairs) + "}"
    except csv.Error as error:
        if str(error).startswith(_TOO_LONG):
            raise OversizedPushError(
                f"{rules.where}: line {reader.line_num} of the CSV has a cell with more characters than the "
                f"{rules.limits.row_bytes} bytes that are the most of a row; nothing was written"
            ) from error
        raise ConfigurationError(
            f"{rules.where}: line {reader.line_num} is not CSV ({error}); nothing was written"
        ) from error


def _expect_cells_of(characters: int) -> None:
    """The reader refuses longer ones than it was told last, by whomever in this process."""
    with _CELLS:
        csv.field_size_limit(max(csv.field_size_limit(), characters))


def _pair(name: str, cell: str, kind: RowKind) -> str:
    """A cell that is no JSON where it must be is shown as the text that it is, to be refused as one."""
    value = json.dumps(cell) if kind.fields[name].quoted else cell.strip()
    try:
        json.loads(value)
    except (ValueError, RecursionError):
        value = json.dumps(cell)
    return f"{json.dumps(name)}:{value}"
