"""`kcontrol insert` on a real broker: rows of a file, and of the standard input, once in the topic of an input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pyarrow as pa
import pytest

from examples.topic_reading import read_topics
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.cli.conftest import Command
from tests.integration.cli.test_inputs import Pipeline
from tests.support.packed_rows import avro, parquet
from tests.support.processes import objects
from tests.unit.core.made import SPEC

SCHEMA = "customer STRING, amount INT"


class World:
    """A pipeline that takes rows with a customer, by whom they are partitioned, and nobody who reads them."""

    def __init__(self, settings: ClusterSettings, topic: str, name: str, directory: Path) -> None:
        self.settings, self.topic, self.name, self.directory = settings, topic, name, directory
        topic_id = TopicAdmin(settings).get(topic, "input").topic_id
        source = replace(
            SPEC.inputs[0],
            topic=topic,
            topic_id=topic_id,
            value_format="json",
            value_schema=SCHEMA,
            partitioned_by="customer",
        )
        Pipeline(settings, name, topic).say(replace(SPEC, pipeline=name, inputs=(source,)))

    def file(self, name: str, content: str | bytes) -> str:
        (self.directory / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    def rows(self) -> list[tuple[bytes | None, dict[str, Any]]]:
        messages = read_topics(self.settings.bootstrap_servers, [self.topic])
        found = [(each.key(), json.loads(each.value())) for each in messages]
        return sorted(found, key=lambda row: (row[1]["customer"], row[1].get("amount") or 0))


@pytest.fixture
def world(settings: ClusterSettings, topic_factory: TopicFactory, unique: str, tmp_path: Path) -> World:
    return World(settings, topic_factory("inserted", partitions=2), f"inserted-{unique}", tmp_path)


def told(ran: CompletedProcess[str]) -> dict[str, Any]:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    [found] = objects(ran.stdout)
    return dict(found)


def test_rows_of_each_kind_of_file_are_there_once_by_their_keys_however_often_they_are_inserted(
    world: World, command: Command
) -> None:
    """S003-22."""
    files = [
        world.file("new.csv", "customer,amount\nann,1\nbob,2\n"),
        world.file("new.ndjson", '{"customer":"ann","amount":3}\n{"customer":"eve"}\n'),
        world.file("new.json", '[{"customer":"bob","amount":4}]'),
        world.file(
            "new.avro", avro({"customer": "string", "amount": "int"}, [{"customer": "kim", "amount": 5}])
        ),
        world.file(
            "new.parquet", parquet({"customer": ["kim", "kim"], "amount": pa.array([6, 7], pa.int32())})
        ),
    ]
    for file, records in zip(files, (2, 2, 1, 1, 2), strict=True):
        insert = ["insert", world.name, "in", file, "--id", f"id of {file}", "--json"]
        first, again = (told(command(*insert)) for _ in range(2))
        assert (first["records"], first["replayed"], first["steps"]) == (records, False, [])
        assert again == {**first, "replayed": True}
    assert world.rows() == [
        (b"ann", {"customer": "ann", "amount": 1}),
        (b"ann", {"customer": "ann", "amount": 3}),
        (b"bob", {"customer": "bob", "amount": 2}),
        (b"bob", {"customer": "bob", "amount": 4}),
        (b"eve", {"customer": "eve"}),
        *((b"kim", {"customer": "kim", "amount": amount}) for amount in (5, 6, 7)),
    ]
    text = command("insert", world.name, "in", "new.json", "--id", "another").stdout
    assert f"pipeline {world.name}, input in: 1 rows are written; token " in text
    assert len(world.rows()) == 9


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("wrong.csv", "customer,amount\nann,1\nbob,many\n", "'many' is not INT"),
        ("wrong.ndjson", '{"customer":"ann"}\n{"costumer":"bob"}\n', "did you mean 'customer'?"),
        (
            "wrong.avro",
            avro({"customer": "string", "amount": "string"}, [{"customer": "ann", "amount": "x"}]),
            "'x' is not INT",
        ),
        ("wrong.parquet", "PAR1", "does not end with PAR1: it is cut off"),
        ("rows.txt", "ann", "its ending '.txt' does not say what it holds: give --format"),
    ],
)
def test_of_a_file_with_a_bad_row_none_is_inserted(
    world: World, command: Command, name: str, content: str | bytes, said: str
) -> None:
    ran = command("insert", world.name, "in", world.file(name, content))
    assert (ran.returncode, said in ran.stderr) == (2, True), ran.stderr
    assert world.rows() == []
