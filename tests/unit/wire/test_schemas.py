"""The schemas: complete, documented, the same as the dataclasses, and readable across every released
version."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import fields
from enum import StrEnum
from io import BytesIO
from itertools import permutations
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from fastavro import schemaless_reader, schemaless_writer
from fastavro.read import SchemaResolutionError
from fastavro.utils import generate_one

from kcontrol.wire.cluster import CLUSTER_CLASSES
from kcontrol.wire.cluster_snapshot import ClusterSnapshot
from kcontrol.wire.codec import RECORD_CLASSES
from kcontrol.wire.package_signatures import PackageSignature
from kcontrol.wire.packages import PackageManifest
from kcontrol.wire.pushed import PushedRequest
from kcontrol.wire.regions import REGION_CLASSES
from kcontrol.wire.schemas import Schema, current_schemas, fingerprint_of, make_schema, released_schemas
from kcontrol.wire.shapes import optional_of

OWN_CLASSES = {
    cls.__name__: cls for cls in (ClusterSnapshot, PackageManifest, PackageSignature, PushedRequest)
}
ALL_CLASSES = {**RECORD_CLASSES, **CLUSTER_CLASSES, **REGION_CLASSES, **OWN_CLASSES}
RECORDS = sorted(ALL_CLASSES)


def definition(name: str) -> Any:
    return json.loads(current_schemas()[name].json)


def named_types(node: Any) -> Iterator[dict[str, Any]]:
    """Every record and enum that is defined in a schema."""
    if isinstance(node, list):
        for each in node:
            yield from named_types(each)
    elif isinstance(node, dict):
        if node["type"] in ("record", "enum"):
            yield node
        for part in (node["type"], node.get("items"), node.get("fields")):
            yield from named_types(part)


def expected_type(hint: Any, defined: set[str]) -> Any:
    """What a type hint must look like in Avro, documentation left out."""
    if hint in (int, str, bool):
        return {int: "long", str: "string", bool: "boolean"}[hint]
    if get_origin(hint) is tuple:
        return {"type": "array", "items": expected_type(get_args(hint)[0], defined)}
    if (inner := optional_of(hint)) is not None:
        return ["null", expected_type(inner, defined)]
    if hint.__name__ in defined:
        return hint.__name__
    defined.add(hint.__name__)
    if issubclass(hint, StrEnum):
        return {"type": "enum", "name": hint.__name__, "symbols": [each.value for each in hint]}
    hints = get_type_hints(hint)
    members = [
        {"name": each.name.rstrip("_"), "type": expected_type(hints[each.name], defined)}
        for each in fields(hint)
    ]
    return {"type": "record", "name": hint.__name__, "fields": members}


def bare(node: Any) -> Any:
    """A schema without documentation, namespace and defaults."""
    if isinstance(node, list):
        return [bare(each) for each in node]
    if isinstance(node, dict):
        return {key: bare(value) for key, value in node.items() if key not in ("doc", "namespace", "default")}
    return node


def resolve(writer: Schema, reader: Schema, seed: int = 0) -> Any:
    """Data made up for one schema, as the other reads it."""
    random.seed(seed)
    buffer = BytesIO()
    schemaless_writer(buffer, writer.parsed, generate_one(writer.parsed))
    buffer.seek(0)
    return schemaless_reader(buffer, writer.parsed, reader.parsed)


@pytest.mark.parametrize(
    ("primitive", "fingerprint"),
    [
        ("null", 7195948357588979594),
        ("boolean", -6970731678124411036),
        ("int", 8247732601305521295),
        ("long", -3434872931120570953),
        ("string", -8142146995180207161),
    ],
)
def test_fingerprints_are_those_of_avros_own_test_data(primitive: str, fingerprint: int) -> None:
    assert int.from_bytes(fingerprint_of(primitive), "little", signed=True) == fingerprint


def test_there_is_one_schema_for_each_record_and_one_history_for_each_schema() -> None:
    assert sorted(current_schemas()) == RECORDS
    assert sorted(released_schemas()) == RECORDS


@pytest.mark.parametrize("name", RECORDS)
def test_the_schema_has_the_fields_and_types_of_the_dataclass(name: str) -> None:
    assert bare(definition(name)) == expected_type(ALL_CLASSES[name], set())


@pytest.mark.parametrize("name", RECORDS)
def test_everything_is_documented_and_every_enum_has_a_symbol_for_the_unknown(name: str) -> None:
    for each in named_types(definition(name)):
        assert each["doc"].strip(), each["name"]
        for field in each.get("fields", ()):
            assert field["doc"].strip(), f"{each['name']}.{field['name']}"
        if each["type"] == "enum":
            assert each["default"] in each["symbols"], each["name"]


@pytest.mark.parametrize("name", RECORDS)
def test_the_newest_released_version_is_the_current_one(name: str) -> None:
    assert json.loads(released_schemas()[name][-1].json) == definition(name)


@pytest.mark.parametrize("name", RECORDS)
def test_every_version_reads_what_every_other_version_wrote(name: str) -> None:
    versions = released_schemas()[name]
    for writer, reader in [(versions[0], versions[0]), *permutations(versions, 2)]:
        assert resolve(writer, reader).keys() == {field["name"] for field in reader.parsed["fields"]}


def test_a_field_without_default_is_found_to_break_readers_of_old_data() -> None:
    newer = definition("StepBoundary")
    newer["fields"].append({"name": "added", "doc": "New.", "type": "long"})
    with pytest.raises(SchemaResolutionError):
        resolve(current_schemas()["StepBoundary"], make_schema(newer))


def test_a_field_with_default_and_a_new_symbol_work_in_both_directions() -> None:
    old, newer = definition("Desired"), copy.deepcopy(definition("Desired"))
    newer["fields"].append({"name": "added", "doc": "New.", "type": "long", "default": 5})
    mode = next(each for each in named_types(newer) if each["name"] == "DesiredMode")
    mode["symbols"] = ["drained"]
    mode["default"] = "drained"
    assert resolve(make_schema(old), make_schema(newer))["added"] == 5
    assert resolve(make_schema(newer), make_schema(old))["mode"] == "paused"
