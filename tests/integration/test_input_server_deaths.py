"""The server that an input comes from is killed with SIGKILL while a pipeline reads from it, and started anew, again and again:
each row in exactly one step, equal in a replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.any_input import PATIENCE_S, DyingServer, Numbers, lines, object_store
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


def test_a_registry_dies_in_place_of_answers(settings: ClusterSettings, tmp_path: Path) -> None:
    """Each of the schemas that rows were written by is asked for, and none of them when the steps are run again."""
    schemas = {each: _schema(each) for each in range(1, len(DEATHS) + 1)}
    file = tmp_path / "schemas.ndjson"
    file.write_text("".join(json.dumps(["any-value", each]) + "\n" for each in schemas.values()))
    server = DyingServer("tests.support.registry_process", file)
    (tmp_path / "kcontrol.toml").write_text(f'[schema_registry]\nurl = "{server.url}"\n')
    numbers = Numbers(settings, tmp_path, "registry", 4_000)
    with server.process() as first, numbers.coordinator(), numbers.node() as node:
        node.says("joins", PATIENCE_S)
        first.kill()
        numbers.produce(schemas)
        for dies_at in (1, 2) * (len(schemas) // 2 - 1):
            server.dies(dies_at)
        with server.process():
            numbers.until_all_are_there()
    numbers.check()


def _schema(number: int) -> dict[str, Any]:
    """With the number itself and another one's name beside it."""
    more = {"name": f"more_{number}", "type": "int", "default": number}
    return {"type": "record", "name": "Number", "fields": [{"name": "number", "type": "long"}, more]}
