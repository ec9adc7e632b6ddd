"""SIGKILL between any two messages of the step protocol, of the coordinator and of the node, for each kind of input: each row
in exactly one step, equal in a replay. (Of topics: test_recovery_crash_points.py; of pushed rows: kafka/test_push.py.)"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.any_input import PATIENCE_S, Numbers, lines, object_store
from tests.integration.recovery import until_dead
from tests.integration.test_recovery_crash_points import COORDINATOR_POINTS, NODE_POINTS
from tests.support.files_server import serving_files
from tests.support.processes import KcontrolProcess
from tests.support.registry import serving

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]

ROWS = 40_000
"""More than those who die read."""
NUMBER = {"type": "record", "name": "Number", "fields": [{"name": "number", "type": "long"}]}


@pytest.fixture(params=["directory", "url", "store", "generator", "registry"])
def numbers(request: pytest.FixtureRequest, settings: ClusterSettings, tmp_path: Path) -> Iterator[Numbers]:
    kind = request.param
    with ExitStack() as stack:
        if kind == "directory":
            (tmp_path / "spool").mkdir()
            (tmp_path / "spool" / "rows.ndjson").write_bytes(lines(ROWS))
            yield Numbers(settings, tmp_path, str(tmp_path / "spool"), ROWS)
        elif kind == "url":
            url = stack.enter_context(serving_files()).put("/rows.ndjson", lines(ROWS), '"v1"')
            yield Numbers(settings, tmp_path, url, ROWS)
        elif kind == "store":
            store, address = stack.enter_context(object_store(tmp_path / "store", lines(ROWS)))
            yield Numbers(settings, tmp_path, address, ROWS, store.for_aws_clients)
        elif kind == "registry":
            registry = stack.enter_context(serving())
            (tmp_path / "kcontrol.toml").write_text(f'[schema_registry]\nurl = "{registry.url}"\n')
            made = Numbers(settings, tmp_path, kind, ROWS // 2)
            made.produce({registry.add("any-value", NUMBER): NUMBER})
            yield made
        else:
            yield Numbers(settings, tmp_path, kind, ROWS // 2)


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
