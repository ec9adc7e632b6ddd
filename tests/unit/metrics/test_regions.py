"""The metrics of regions, by a region's log, at the /metrics of a server."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from prometheus_client import CollectorRegistry

from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.metrics.catalogue import CATALOGUE
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.adapters.metrics.regions import register_regions
from kcontrol.apps.http_server import serve_interface
from kcontrol.apps.regions.following import KnownRegions
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_kafka import MemoryKafka, MemorySource
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.processes import until
from tests.support.written_region import EXPECTED, regions, shown_in


@pytest.mark.parametrize("name", EXPECTED)
def test_a_figure_is_that_of_the_log(name: str) -> None:
    registry = CollectorRegistry()
    register_regions(registry, regions)
    labels = {"region": "orders", **({"state": "draining"} if name == "state" else {})}
    assert registry.get_sample_value(f"kcontrol_region_{name}", labels) == EXPECTED[name]


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
