"""Rows out of an Avro file (an object container file: a schema, and blocks of records, which may be compressed).

A block says how many bytes it unpacks to only by being unpacked, so each is, up to what is left of what a body may take and not
one byte further.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from fastavro import parse_schema
from fastavro.schema import SchemaParseException, UnknownType

from kcontrol.requests.push.avro_codecs import CODECS, DAMAGE, TooLargeError, Unpack
from kcontrol.requests.push.avro_rows import Read, row_reader
from kcontrol.requests.push.forms import NoJsonError
from kcontrol.requests.push.limits import Rules
from kcontrol.wire.avro_reader import BadValueError, Datum, TooManyCellsError, read_blocks

MAGIC = b"Obj\x01"
MAX_SCHEMA_BYTES = 1 << 20
_SYNC_BYTES = 16
_NO_SCHEMA = (
    ValueError, KeyError, TypeError, AttributeError, RecursionError, SchemaParseException, UnknownType,
)  # fmt: skip


def avro_rows(body: bytes, rules: Rules) -> Iterator[str]:
    """Each row, as JSON. Raises ConfigurationError."""
    if not body.startswith(MAGIC):
        what = "is empty" if not body else "does not begin as an Avro file does (Obj, 1)"
        raise rules.refused(f"the body {what}: send an object container file")
    file = Datum(body, len(MAGIC), len(body))
    try:
        facts = _facts(file)
        sync = file.take(_SYNC_BYTES)
    except BadValueError as error:
        raise rules.refused(f"the Avro file is damaged or cut off in its header: {error}") from error
    read, unpack = _reader(facts, rules), _unpacker(facts, rules)
    number, left = 0, rules.limits.unpacked_bytes
    while file.at < len(body):
        begin = file.at
        try:
            count, packed = _block(file, sync)
            if number + count > rules.limits.rows:
                raise rules.too_many()
            block = Datum(unpack(packed, left), 0, 0)
        except TooLargeError as error:
            raise rules.too_large("unpacked, the Avro file has") from error
        except DAMAGE as error:
            raise rules.refused(
                f"the Avro file is damaged or cut off in the block at byte {begin}, behind row {number}: "
                f"{str(error)[:200] or type(error).__name__}"
            ) from error
        left -= len(block.data)
        yield from _rows(block, number, count, read, rules)
        number += count


def _rows(block: Datum, before: int, count: int, read: Read, rules: Rules) -> Iterator[str]:
    for number in range(before + 1, before + count + 1):
        # What is in an array takes two characters of JSON at least, and may take no byte of Avro.
        block.cells = rules.limits.row_bytes // 2
        try:
            row = read(block)
        except TooManyCellsError as error:
            raise rules.refused(
                f"row {number} has more values in its arrays and maps than a row has room for"
            ) from error
        except NoJsonError as error:
            raise rules.refused(f"row {number} {error}") from error
        except RecursionError as error:
            # Types that name each other are as deep as their schema is long.
            raise rules.refused(f"row {number} is nested too deep") from error
        yield row
    if block.at != len(block.data):
        raise rules.refused(
            f"the Avro file is damaged: behind row {before + count} its block has {len(block.data) - block.at} bytes left over"
        )


def _block(file: Datum, sync: bytes) -> tuple[int, bytes]:
    """How many rows, and their bytes as they are in the file. Raises BadValueError."""
    count, packed = file.varint(), file.take(file.varint())
    if count < 0:
        raise BadValueError(f"it says that it has {count} rows")
    if file.take(_SYNC_BYTES) != sync:
        raise BadValueError("the 16 bytes behind it are not those of the header")
    return count, packed


def _facts(file: Datum) -> dict[str, bytes]:
    found: dict[str, bytes] = {}

    def one(file: Datum) -> None:
        name = file.take(file.varint()).decode(errors="replace")
        found[name] = file.take(file.varint())

    read_blocks(file, 2, 1, one)
    return found


def _reader(facts: Mapping[str, bytes], rules: Rules) -> Read:
    text = facts.get("avro.schema", b"")
    if len(text) > MAX_SCHEMA_BYTES:
        raise rules.refused(
            f"the schema of the Avro file has {len(text)} bytes, {MAX_SCHEMA_BYTES} are the most"
        )
    try:
        return row_reader(parse_schema(json.loads(text)), rules.kind, rules.limits.row_bytes)
    except NoJsonError as error:
        raise rules.refused(f"of the Avro file, {error}") from error
    except _NO_SCHEMA as error:
        why = str(error)[:200] or type(error).__name__
        raise rules.refused(f"the Avro file has no schema that can be read: {why}") from error


def _unpacker(facts: Mapping[str, bytes], rules: Rules) -> Unpack:
    name = facts.get("avro.codec", b"null").decode(errors="replace")
    if name not in CODECS:
        raise rules.refused(
            f"the Avro file is compressed by {name[:40]!r}, which is not available: write it with one of {', '.join(CODECS)}"
        )
    return CODECS[name]
