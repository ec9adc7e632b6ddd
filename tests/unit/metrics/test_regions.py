"""The metrics of regions, by a region's log, at the /metrics of a server."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import httpx
import pytest
from prometheus_client import CollectorRegistry

from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.metrics.catalogue import CATALOGUE
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.adapters.metrics.regions import register_regions
from kcontrol.apps.http_server import serve_interface
from kcontrol.apps.regions.following import KnownRegions
from kcontrol.core.regions.history import history_of
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import RegionState
from kcontrol.core.regions.records import RegionChange, RegionCut
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.regions_facts import RegionSight
from tests.fakes.memory_kafka import MemoryKafka, MemorySource
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.processes import until
from tests.support.written_region import (
    BEGAN_MS,
    DEFINED,
    EXPECTED,
    regions,
    shown_in,
    written_region,
)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_figure_is_that_of_the_log(name: str) -> None:
    registry = CollectorRegistry()
    register_regions(registry, regions)
    labels = {"region": "orders", **({"state": "draining"} if name == "state" else {})}
    assert registry.get_sample_value(f"kcontrol_region_{name}", labels) == EXPECTED[name]


def test_a_log_that_has_forgotten_how_its_newest_cut_was_made_still_says_when() -> None:
    """An older version has written it: a region that is up and down for days writes more changes than are kept."""
    cut = RegionCut("orders", 4, BEGAN_MS + 46_000, ())
    late = [each for each in _of_an_older_version() if each.at_ms >= BEGAN_MS + 50_000]
    registry = CollectorRegistry()
    register_regions(
        registry, lambda: {"orders": RegionSight(DEFINED, read_on(RegionLogView(), [*late, cut]))}
    )

    def told(name: str) -> float | None:
        return registry.get_sample_value(f"kcontrol_region_{name}", {"region": "orders"})

    assert told("last_consistent_timestamp_seconds") == EXPECTED["last_consistent_timestamp_seconds"]
    assert told("drain_seconds_average") is None


def test_a_drain_whose_beginning_was_forgotten_is_in_no_average() -> None:
    changes = _of_an_older_version()
    begun = next(number for number, each in enumerate(changes) if each.state is RegionState.DRAINING)
    assert history_of(changes[begun:]).drain_ms == (1_000, 6_000)
    assert history_of(changes).drain_ms == (2_000, 1_000, 6_000)


def _of_an_older_version() -> list[RegionChange]:
    return [replace(each, history=None) for each in written_region().changes]


def test_a_server_shows_all_of_them() -> None:
    listener = Listener(HttpOptions(port=0, limits=patient_limits()))
    nobody = ClusterSettings(bootstrap_servers="127.0.0.1:1")

    def ask() -> str:
        with httpx.Client(base_url=listener.url, timeout=HANG_S) as client:
            until(lambda: client.get("/health/ready").status_code == 200, "the server is ready")
            return client.get("/metrics").text

    async def main() -> str:
        source, known = MemorySource(MemoryKafka()), KnownRegions(regions())
        serving = asyncio.create_task(
            serve_interface(listener, nobody, source, make_registry(), regions=known)
        )
        found = await asyncio.to_thread(ask)
        listener.stop()
        await serving
        return found

    shown = shown_in(asyncio.run(asyncio.wait_for(main(), HANG_S)))
    assert shown == EXPECTED
    known = {metric.name for metric in CATALOGUE if metric.name.startswith("kcontrol_region_")}
    assert {f"kcontrol_region_{name}" for name in shown} == known
