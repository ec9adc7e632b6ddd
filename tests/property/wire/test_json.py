"""JSON loses nothing and uses the names of the schemas."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from kcontrol.core.model import ControlRecord, StepBoundary
from kcontrol.wire.json import to_json, to_json_line
from kcontrol.wire.schemas import current_schemas
from kcontrol.wire.shapes import from_avro
from tests.strategies import BOUNDARIES, RECORDS


@given(RECORDS)
def test_a_record_can_be_made_again_from_its_line(record: ControlRecord | StepBoundary) -> None:
    line = to_json_line(record)
    assert "\n" not in line
    cls: type = type(record)
    assert from_avro(cls)(json.loads(line)) == record


@given(RECORDS)
def test_the_fields_are_those_of_the_schema_in_its_order(record: ControlRecord | StepBoundary) -> None:
    names = [field["name"] for field in current_schemas()[type(record).__name__].parsed["fields"]]
    assert list(to_json(record)) == names


@given(BOUNDARIES)
def test_a_boundary_reads_as_the_protocol_says(boundary: StepBoundary) -> None:
    values: dict[str, Any] = to_json(boundary)
    for each, read in zip(values["inputs"], boundary.inputs, strict=True):
        assert list(each) == [
            "input",
            "topic",
            "topic_id",
            "partition",
            "from",
            "to",
            "records",
            "digest",
            "digest_version",
        ]
        assert (each["from"], each["to"]) == (read.from_, read.to)
    for each in values["outputs"]:
        assert list(each) == ["output", "topic", "partition", "from", "to", "records", "digest"]
    assert values["reason"] == boundary.reason.value
