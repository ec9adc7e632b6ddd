"""Inputs of files, as they are defined: what is refused, and what their address is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol import FileInput, KafkaInput, KafkaOutput, Pipeline
from kcontrol.core.model import BadRecords, PipelineSpec
from kcontrol.definition.resolve import FoundInput, OutputFacts, QueryFacts, build_spec, fingerprint
from kcontrol.definition.spec_rules import check_spec
from kcontrol.definition.succession import succeed
from kcontrol.errors import ConfigurationError, SpecChangedError
from kcontrol.wire.files import LINES_ID, FileAddress, files_of

QUERY = QueryFacts("q", ("out",), "append", (), brings_key=False)
CSV = {"value_format": "csv", "schema": "a INT"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"path": "orders.csv"}, "path = 'orders.csv'.*absolute path"),
        ({"path": "ftp://example.org/a"}, "absolute path, or a URL"),
        ({"path": "s3://Bucket_/a"}, "name of a bucket"),
        ({"path": "s3:///a"}, "name of a bucket"),
        ({"path": "s3://eve:secret@bucket/a"}, "path is a URL with a user"),
        ({"path": "s3://bucket/a?region=eu-west-1"}, "without '\\?': region, endpoint"),
        ({"path": "s3://bucket"}, "s3://bucket is no object: say which below it"),
        ({"path": "s3://bucket/in/"}, "s3://bucket/in/ is no object: say which below it"),
        ({"path": "s3://bucket/a", "growing": True}, "nothing is appended to an object of S3"),
        ({"path": "https:///a"}, "with a host"),
        ({"path": "https://eve:secret@example.org/a"}, "path is a URL with a user"),
        ({"path": "https://example.org/a", "growing": True}, "is a URL, of which one version is read"),
        ({"path": "https://example.org/a", "pattern": "*"}, "is a URL, of which one version is read"),
        ({"pattern": "a/*.csv"}, "pattern = 'a/\\*.csv'.*without '/' and ','"),
        ({"pattern": ""}, "pattern = ''"),
        ({"value_format": "csv"}, "needs schema="),
        ({"value_format": "avro", "schema": "a INT"}, "value_format = 'avro'"),
        ({"header": True}, "header = True is for value_format='csv'"),
        ({"max_line_bytes": 0}, "max_line_bytes = 0"),
        ({"on_bad_record": "dead_letter"}, "need each other"),
        ({"topic": "orders"}, "there is no setting 'topic'"),
    ],
)
def test_what_no_input_of_files_can_be_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"FileInput 'orders'.*{said}") as refused:
        FileInput("orders", **{"path": "/data/orders", **settings})
    assert "secret" not in str(refused.value)


def _pipeline(source: FileInput, nodes: int = 1) -> Pipeline:
    return Pipeline("p", nodes=nodes, inputs=[source], outputs=[KafkaOutput("out", topic="o")])


def test_with_several_nodes_it_is_said_on_whose_host_the_file_is() -> None:
    with pytest.raises(ConfigurationError, match=r"input 'orders' reads /data/orders.*say node="):
        _pipeline(FileInput("orders", path="/data/orders"), nodes=2)
    _pipeline(FileInput("orders", path="/data/orders", node=1), nodes=2)
    _pipeline(FileInput("orders", path="https://example.org/orders"), nodes=2)
    _pipeline(FileInput("orders", path="s3://bucket/orders", pattern="*"), nodes=2)


def _spec(source: FileInput, before: PipelineSpec | None = None) -> PipelineSpec:
    address, begins = source.address("", 0)
    found = {source.name: FoundInput(source.log_id, begins, address)}
    outputs = {"out": OutputFacts("id", 2), "orders.dead_letter": OutputFacts("id", 1)}
    made = build_spec(_pipeline(source), found, outputs, [QUERY])
    check_spec(made)
    return succeed(made, before, "")


def test_its_address_is_its_place_and_how_its_lines_are_read() -> None:
    source = FileInput("orders", path="/data/in", pattern="*.csv", header=True, growing=False, **CSV)
    spec = _spec(source)
    item = spec.inputs[0]
    assert files_of(item.topic) == FileAddress(
        "/data/in", "*.csv", growing=False, header=True, max_line_bytes=1_048_576
    )
    assert (item.topic_id, item.start_offsets, item.value_format) == (LINES_ID, (0,), "csv")
    assert _spec(source, spec) == spec
    with pytest.raises(SpecChangedError):
        _spec(FileInput("orders", path="/data/in2", pattern="*.csv", header=True, growing=False, **CSV), spec)


def test_objects_of_s3_are_whole_and_one_of_them_is_one_version() -> None:
    found = files_of(_spec(FileInput("orders", path="s3://bucket/in", pattern="*.csv")).inputs[0].topic)
    assert found == FileAddress(
        "s3://bucket/in", "*.csv", growing=False, header=False, max_line_bytes=1_048_576
    )
    assert (found.is_url, found.is_s3, found.is_one_version) == (True, True, False)
    assert files_of(_spec(FileInput("orders", path="s3://bucket/a.csv")).inputs[0].topic).is_one_version
    assert not files_of(_spec(FileInput("orders", path="/data/s3://bucket")).inputs[0].topic).is_s3


def test_without_the_library_s3_is_refused_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcontrol.definition.files.find_spec", lambda name: None)
    with pytest.raises(
        ConfigurationError, match=r"FileInput 'orders': to read s3://bucket/a.*'kcontrol\[s3\]'"
    ):
        FileInput("orders", path="s3://bucket/a")
    FileInput("orders", path="/data/orders")


def test_csv_is_for_files_alone() -> None:
    spec = _spec(FileInput("orders", path="/data/orders", **CSV))
    topic = replace(spec.inputs[0], topic="orders")
    with pytest.raises(ConfigurationError, match="value_format = 'csv'"):
        check_spec(replace(spec, inputs=(topic,)))
    with pytest.raises(ConfigurationError):
        KafkaInput("orders", topic="orders", value_format="csv", schema="a INT")  # type: ignore[arg-type]


def test_bad_lines_go_where_the_input_says() -> None:
    source = FileInput(
        "orders", path="/data/orders", on_bad_record="dead_letter", dead_letter_topic="bad", **CSV
    )
    item = _spec(source).inputs[0]
    assert (item.on_bad_record, item.dead_letter_output) == (BadRecords.DEAD_LETTER, "orders.dead_letter")


def test_what_makes_other_rows_is_another_fingerprint() -> None:
    others: list[dict[str, Any]] = [
        {},
        {"path": "/data/other"},
        {"pattern": "*.csv"},
        {"growing": False},
        {"path": "https://example.org/orders"},
        {"path": "s3://bucket/orders"},
        {"max_line_bytes": 10},
        CSV,
        {**CSV, "header": True},
        {**CSV, "on_bad_record": "skip"},
    ]
    made = {
        fingerprint(_pipeline(FileInput("orders", **{"path": "/data/orders", **each})), [QUERY])
        for each in others
    }
    assert len(made) == len(others)
