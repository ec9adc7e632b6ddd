"""Writes docs/schemas.md from the schemas themselves, so that the page can't say anything else:
`python -m docs.make_schemas`.

tests/docs/test_reference.py fails when the page is not current.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kcontrol.wire.schemas import current_schemas, released_schemas

PAGE = Path(__file__).parent / "schemas.md"

INTRODUCTION = """# Records

Made from `schemas/*.avsc` by `python -m docs.make_schemas`: do not edit.

Every record in `kcontrol.control` and in the steps topics is one Avro value in single-object encoding: the bytes `C3 01`, the
CRC-64-AVRO fingerprint of its schema (8 bytes, little endian), and the body. Before a writer uses a schema in a partition it
puts it there as JSON under the key `schema/FINGERPRINT` (hexadecimal, in the order of those 8 bytes), so that any reader,
older or newer, can resolve what it finds with no registry. Keys are UTF-8 text; a key without a value is a tombstone.

The topics of the cluster of agents (`PREFIX.cluster`, its beats and its snapshots) hold such values too, and no schemas: a
version is written only where everybody has it ([decision 111](decisions/111-entries-are-avro.md)).

The topics of regions (`PREFIX.regions` and `PREFIX.regions.log.REGION`) hold such values and no schemas: a reader knows every
version that was released before it, and says so where it meets a newer one.

`kcontrol log` and `kcontrol steps --json` print the same fields as JSON.

Every version that was released is kept in `schemas/history/RECORD/vN.avsc` and must be able to read what every other version of
it wrote. A change adds a version: new fields have a default, new symbols of an enum go to its end, nothing is renamed.
"""


def render() -> str:
    """The whole page."""
    parts: dict[str, dict[str, Any]] = {}
    sections = [INTRODUCTION]
    for name, schema in current_schemas().items():
        definition = json.loads(schema.json)
        parts.update((each["name"], each) for each in _named(definition) if each["name"] != name)
        versions = len(released_schemas()[name])
        sections.append(
            f"## {name}\n\n{definition['doc']}\n\nVersion {versions}, "
            f"`{schema.fingerprint.hex()}`.\n\n{_table(definition)}"
        )
    sections.append("# Parts of records\n")
    for name in sorted(parts):
        definition = parts[name]
        body = _table(definition) if definition["type"] == "record" else _symbols(definition)
        sections.append(f"## {name}\n\n{definition['doc']}\n\n{body}")
    return "\n".join(sections)


def _named(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, list):
        for each in node:
            yield from _named(each)
    elif isinstance(node, dict):
        if node["type"] in ("record", "enum"):
            yield node
        for below in (node["type"], node.get("items"), node.get("fields")):
            yield from _named(below)


def _table(definition: dict[str, Any]) -> str:
    rows = (
        f"| `{field['name']}` | {_type(field['type'])} | {field['doc']} |\n" for field in definition["fields"]
    )
    return "| field | type | |\n|---|---|---|\n" + "".join(rows)


def _symbols(definition: dict[str, Any]) -> str:
    return "One of " + ", ".join(f"`{symbol}`" for symbol in definition["symbols"]) + ".\n"


def _type(node: Any) -> str:
    if isinstance(node, list):
        return " or ".join(_type(each) for each in node)
    if isinstance(node, dict):
        return f"list of {_type(node['items'])}" if node["type"] == "array" else _type(node["name"])
    return node if node in ("null", "long", "string", "boolean") else f"[{node}](#{node.lower()})"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
