"""What a server is told of pushes holds: how large they may be, and how many are remembered, for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.apps import http_server
from kcontrol.requests.push.limits import BodyLimits, MemoryLimits
from kcontrol.sessions.ports import Clock
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_kafka import MemoryKafka, MemorySource
from tests.fakes.memory_pushes import MemoryPushLog
from tests.support.http_world import told_in
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.processes import until

AT_MS = 1_795_736_400_000
LIMITS = patient_limits(
    max_push_bytes=100_000,
    bodies=BodyLimits(rows=2, row_bytes=12),
    remembered=MemoryLimits(remember_ms=90_000, requests=1),
)


def answered(
    ask: Callable[[httpx.Client], None], monkeypatch: pytest.MonkeyPatch, partition: int = 0
) -> None:
    """By a server with LIMITS. partition: that rows go to."""
    listener = Listener(HttpOptions(limits=LIMITS))

    def log(_settings: ClusterSettings, _clock: Clock, limits: MemoryLimits) -> MemoryPushLog:
        return MemoryPushLog(StandingStill(), limits, partition=partition)

    monkeypatch.setattr(http_server, "KafkaPushLog", log)

    def asking() -> None:
        with httpx.Client(base_url=listener.url, timeout=HANG_S) as client:
            until(lambda: client.get("/health/ready").status_code == 200, "the server is ready")
            ask(client)

    async def main() -> None:
        kafka = MemoryKafka()
        told = told_in(kafka)
        told.reads(replace(told.input, value_format="json"))
        await told.begin()
        settings = ClusterSettings(bootstrap_servers="127.0.0.1:1")
        serving = asyncio.create_task(
            http_server.serve_interface(listener, settings, MemorySource(kafka), make_registry())
        )
        try:
            await asyncio.to_thread(asking)
        finally:
            listener.stop()
            await serving

    asyncio.run(asyncio.wait_for(main(), HANG_S))


class StandingStill:
    def now_ms(self) -> int:
        return AT_MS

    def monotonic_ms(self) -> int:
        return 0


def push(client: httpx.Client, body: str, id_: str) -> httpx.Response:
    headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": id_}
    return client.post("/v1/pipelines/p/ingress/in", content=body, headers=headers)


def test_a_server_has_the_limits_that_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(client: httpx.Client) -> None:
        for body, said in (
            ('{"a":1}\n' * 3, "more than 2 rows"),
            ('{"a":123456789}\n', "row 1 has 15 bytes, 12 are the most"),
        ):
            refused = push(client, body, "a")
            assert (refused.status_code, said in refused.json()["detail"]) == (422, True), refused.text
        taken = push(client, '{"a":1}\n' * 2, "a")
        assert taken.json()["remembered_until_ms"] == AT_MS + 90_000
        assert push(client, '{"a":1}', "b").status_code == 429
        lines = client.get("/metrics").text.splitlines()
        for line in (
            "kcontrol_pushes_remembered 1.0",
            "kcontrol_pushes_remembered_limit 1.0",
            'kcontrol_pushes_refused_total{input="in",pipeline="p",reason="size"} 2.0',
            'kcontrol_pushes_refused_total{input="in",pipeline="p",reason="remembered"} 1.0',
        ):
            assert line in lines

    answered(ask, monkeypatch)


def test_rows_in_a_partition_that_the_server_has_not_heard_of_are_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was added to the topic a moment ago."""

    def ask(client: httpx.Client) -> None:
        for replayed in (False, True):
            taken = push(client, '{"a":1}', "a")
            assert taken.status_code == 200, taken.text
            told = {name: taken.json()[name] for name in ("records", "replayed", "complete", "step")}
            assert told == {"records": 1, "replayed": replayed, "complete": False, "step": None}
        waited = client.get("/v1/pipelines/p/completion", params={"token": taken.json()["token"]})
        assert (waited.status_code, "it reads the partitions 0 to" in waited.text) == (404, True)

    answered(ask, monkeypatch, partition=99)
