"""SIGKILL between any two messages of the step protocol, of the coordinator and of the node, for each kind of input: each row
in exactly one step, equal in a replay. (Of topics: test_recovery_crash_points.py; of pushed rows: kafka/test_push.py.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.any_input import PATIENCE_S, Numbers, lines, object_store, protobuf_numbers
from tests.integration.recovery import until_dead
from tests.integration.test_recovery_crash_points import COORDINATOR_POINTS, NODE_POINTS
from tests.support.files_server import serving_files
from tests.support.processes import KcontrolProcess
from tests.support.registry import Registry, serving

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]

ROWS = 40_000
"""More than those who die read."""
HALF = ROWS // 2
NUMBER = {"type": "record", "name": "Number", "fields": [{"name": "number", "type": "long"}]}
PROTOBUF = 'syntax = "proto3"; message Number { int64 number = 1; }'
OF_FILES = ("directory", "csv", "url", "store")
OF_TOPICS = ("registry", "confluent-json", "confluent-protobuf")


@pytest.fixture(params=[*OF_FILES, "generator", *OF_TOPICS])
def numbers(request: pytest.FixtureRequest, settings: ClusterSettings, tmp_path: Path) -> Iterator[Numbers]:
    kind = request.param
    with ExitStack() as stack:
        if kind in OF_FILES:
            address, env = _files(kind, tmp_path, stack)
            yield Numbers(settings, tmp_path, address, ROWS, env)
        elif kind in OF_TOPICS:
            registry = stack.enter_context(serving())
            (tmp_path / "kcontrol.toml").write_text(f'[schema_registry]\nurl = "{registry.url}"\n')
            made = Numbers(settings, tmp_path, kind, HALF)
            _produce(made, registry)
            yield made
        else:
            yield Numbers(settings, tmp_path, kind, HALF)


def _files(kind: str, directory: Path, stack: ExitStack) -> tuple[str, Mapping[str, str]]:
    """Where they are, and what another process needs to reach them."""
    if kind == "url":
        return stack.enter_context(serving_files()).put("/rows.ndjson", lines(ROWS), '"v1"'), {}
    if kind == "store":
        store, address = stack.enter_context(object_store(directory / "store", lines(ROWS)))
        return address, store.for_aws_clients
    spool = directory / "spool"
    spool.mkdir()
    if kind == "directory":
        (spool / "rows.ndjson").write_bytes(lines(ROWS))
        return f"{spool}/*.ndjson", {}
    for first in (0, HALF):
        rows = "".join(f'{number},"of a record"\n' for number in range(first, first + HALF))
        (spool / f"rows-{first:06}.csv").write_text(f"number,filling\n{rows}")
    return f"{spool}/*.csv", {}


def _produce(numbers: Numbers, registry: Registry) -> None:
    if numbers.kind == "registry":
        numbers.produce({registry.add("any-value", NUMBER): NUMBER})
    elif numbers.kind == "confluent-json":
        numbers.send(b'\x00\x00\x00\x00\x07{"number": %d}' % number for number in range(numbers.count))
    else:
        numbers.send(protobuf_numbers([registry.add("any-value", PROTOBUF, "PROTOBUF")], numbers.count))


def _die_at_each(points: tuple[str, ...], make: Callable[[str], KcontrolProcess]) -> None:
    for point in points:
        with make(point) as doomed:
            until_dead(doomed, point, PATIENCE_S)


def test_all_die_at_each_point_of_their_protocols(numbers: Numbers) -> None:
    with numbers.node() as node:
        node.says("joins", PATIENCE_S)
        _die_at_each(COORDINATOR_POINTS, numbers.coordinator)
    with numbers.coordinator():
        _die_at_each(NODE_POINTS, numbers.node)
        with numbers.node():
            numbers.until_all_are_there()
    numbers.check()
