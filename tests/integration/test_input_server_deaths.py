"""The server that an input comes from is killed with SIGKILL while a pipeline reads from it, and started anew, again and again:
each row in exactly one step, equal in a replay."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.any_input import (
    PATIENCE_S,
    DyingServer,
    Numbers,
    lines,
    object_store,
    protobuf_numbers,
)
from tests.support.following import until_status

pytestmark = [pytest.mark.timeout(2_400), pytest.mark.heavy]

DEATHS = (2, 5, 1, 4, 3, 7, 2, 9)
"""The answers at which one server after the other dies."""


def test_a_server_of_a_file_dies_in_the_midst_of_answers(settings: ClusterSettings, tmp_path: Path) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_bytes(lines(12_000))
    server = DyingServer("tests.support.files_server", file)
    numbers = Numbers(settings, tmp_path, f"{server.url}/{file.name}", 12_000)
    with numbers.coordinator():
        with server.process() as first, numbers.node() as node:
            node.says("joins", PATIENCE_S)
            first.kill()
            for dies_at in DEATHS:
                server.dies(dies_at)
            with server.process():
                numbers.until_all_are_there()
        with server.process():
            numbers.check()


def test_a_store_of_objects_dies_while_it_is_read(settings: ClusterSettings, tmp_path: Path) -> None:
    with object_store(tmp_path / "store", lines(12_000)) as (store, address):
        numbers = Numbers(settings, tmp_path, address, 12_000, store.for_aws_clients)
        with numbers.coordinator(), numbers.node() as node:
            node.says("joins", PATIENCE_S)
            for least in range(1, len(DEATHS)):
                until_status(
                    settings,
                    numbers.name,
                    lambda status, least=least: status.step >= 2 * least,
                    "steps go on",
                    PATIENCE_S,
                )
                store.stop()
                store.start()
            numbers.until_all_are_there()
        numbers.check()


@pytest.mark.parametrize("kind", ["registry", "confluent-protobuf"])
def test_a_registry_dies_in_place_of_answers(kind: str, settings: ClusterSettings, tmp_path: Path) -> None:
    """Each of the schemas that rows were written by is asked for, and none of them when the steps are run again."""
    ids = range(1, len(DEATHS) + 1)
    server = _registry(tmp_path, [_avro(each) if kind == "registry" else _protobuf(each) for each in ids])
    numbers = Numbers(settings, tmp_path, kind, 4_000)
    with server.process() as first, numbers.coordinator(), numbers.node() as node:
        node.says("joins", PATIENCE_S)
        first.kill()
        if kind == "registry":
            numbers.produce({each: json.loads(_avro(each)[0]) for each in ids})
        else:
            numbers.send(protobuf_numbers(ids, numbers.count))
        for dies_at in (1, 2) * (len(ids) // 2 - 1):
            server.dies(dies_at)
        with server.process():
            numbers.until_all_are_there()
    numbers.check()


def test_a_registry_dies_whenever_an_outputs_schema_is_to_be_put_there(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    """Of JSON it is asked for nothing else: what comes in is read by the input's own columns."""
    server = _registry(tmp_path, [])
    numbers = Numbers(settings, tmp_path, "confluent-json", 4_000)
    numbers.send(b'\x00\x00\x00\x00\x07{"number": %d}' % number for number in range(numbers.count))
    with numbers.coordinator(), numbers.node():
        for _ in range(3):
            server.dies(1)
        with server.process():
            numbers.until_all_are_there()
    numbers.check()


def _registry(directory: Path, schemas: list[tuple[str, str]]) -> DyingServer:
    """That holds these texts, each with its type, and that the processes of the pipeline are told of."""
    file = directory / "schemas.ndjson"
    file.write_text("".join(json.dumps(["any-value", *each]) + "\n" for each in schemas))
    server = DyingServer("tests.support.registry_process", file)
    (directory / "kcontrol.toml").write_text(f'[schema_registry]\nurl = "{server.url}"\n')
    return server


def _avro(number: int) -> tuple[str, str]:
    """With the number itself and another one's name beside it."""
    more = {"name": f"more_{number}", "type": "int", "default": number}
    fields = [{"name": "number", "type": "long"}, more]
    return json.dumps({"type": "record", "name": "Number", "fields": fields}), "AVRO"


def _protobuf(number: int) -> tuple[str, str]:
    """The same."""
    text = f'syntax = "proto3"; message Number {{ int64 number = 1; int32 more_{number} = 2; }}'
    return text, "PROTOBUF"
