"""The Avro schemas that come with this version: one a record, with every version that was ever released
beside it.

They live in `schemas/` at the top of the repository and are installed as data of the package under
`kcontrol/schemas`. Fingerprints are CRC-64-AVRO of the parsing canonical form, as the eight bytes of
single-object encoding hold them (Avro 1.12, "Single-object encoding" and "Schema fingerprints").
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from fastavro.schema import fingerprint as fastavro_fingerprint
from fastavro.schema import parse_schema, to_parsing_canonical_form

RABIN = "CRC-64-AVRO"


@dataclass(frozen=True, slots=True)
class Schema:
    """One version of a record's schema.

    name: without namespace. json: the whole text, documentation included, compact. parsed: fastavro's form.
    fingerprint: eight bytes as on the wire.
    """

    name: str
    json: str
    parsed: Any
    fingerprint: bytes


def make_schema(definition: Any) -> Schema:
    """A schema from the JSON definition of a record. Raises what fastavro raises for one that is not Avro."""
    parsed: Any = parse_schema(definition)
    text = json.dumps(definition, ensure_ascii=False, separators=(",", ":"))
    return Schema(parsed["name"].rpartition(".")[2], text, parsed, fingerprint_of(parsed))


def fingerprint_of(parsed: Any) -> bytes:
    """CRC-64-AVRO of any schema, little endian."""
    return bytes.fromhex(fastavro_fingerprint(to_parsing_canonical_form(parsed), RABIN))


def _root() -> Traversable:
    return resources.files("kcontrol.schemas")


def _read(file: Traversable) -> Schema:
    return make_schema(json.loads(file.read_text(encoding="utf-8")))


@cache
def current_schemas() -> Mapping[str, Schema]:
    """By record name: the schemas that this version writes."""
    files = sorted(
        (file for file in _root().iterdir() if file.name.endswith(".avsc")), key=lambda file: file.name
    )
    return {schema.name: schema for schema in map(_read, files)}


@cache
def released_schemas() -> Mapping[str, tuple[Schema, ...]]:
    """By record name: every released version, oldest first (`history/RECORD/vN.avsc`)."""
    history = _root() / "history"
    return {
        folder.name: tuple(_versions(folder))
        for folder in sorted(history.iterdir(), key=lambda folder: folder.name)
    }


def _versions(folder: Traversable) -> Iterator[Schema]:
    numbered = {int(file.name.removeprefix("v").removesuffix(".avsc")): file for file in folder.iterdir()}
    return (_read(numbered[version]) for version in sorted(numbered))
