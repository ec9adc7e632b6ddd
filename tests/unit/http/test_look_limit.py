"""A server looks through as many offsets as it was told to, for a record that Kafka has no more."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.apps import http_server
from kcontrol.core.model import InputSpec
from kcontrol.sessions.ports import Held
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_kafka import (
    MemoryKafka,
    MemorySource,
)
from tests.support.http_world import told_in
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.processes import until


class Emptied:
    """Kafka, after all was deleted."""

    def __init__(self, _settings: ClusterSettings) -> None:
        pass

    async def holds(self, item: InputSpec, partition: int, offset: int) -> Held | str:
        return Held.GONE

    async def records(self, item: InputSpec, partition: int, from_: int, to: int) -> int | str:
        return 0


@pytest.mark.parametrize(
    ("limit", "note"), [(3, "more than the 3 that are looked through"), (4, "of which 0 are left")]
)
def test_the_limit_of_a_server_is_the_one_that_it_was_given(
    limit: int, note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "KafkaRecordLook", Emptied)
    listener = Listener(HttpOptions(limits=patient_limits(max_look_offsets=limit)))

    def ask() -> str:
        until(
            lambda: httpx.get(f"{listener.url}/health/ready", timeout=HANG_S).status_code == 200,
            "the server is ready",
        )
        (found,) = httpx.get(
            f"{listener.url}/v1/pipelines/p/completion", params={"token": "input:0:6"}, timeout=HANG_S
        ).json()["records"]
        return str(found["note"])

    async def main() -> str:
        kafka = MemoryKafka()
        told = told_in(kafka)
        await told.begin()
        await told.step(9, 0, read={0: 2})
        settings = ClusterSettings(bootstrap_servers="127.0.0.1:1")
        serving = asyncio.create_task(
            http_server.serve_interface(listener, settings, MemorySource(kafka), make_registry())
        )
        found = await asyncio.to_thread(ask)
        listener.stop()
        await serving
        return found

    assert note in asyncio.run(asyncio.wait_for(main(), HANG_S))
