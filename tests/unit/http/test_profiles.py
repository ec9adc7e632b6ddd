"""The profile of a node over HTTP: one at a time, for a bounded time, and only for whoever may ask."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import httpx
import pytest

from kcontrol.adapters.http.access import AccessToken
from kcontrol.adapters.http.app import make_metrics_app
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.adapters.profiling.profiler import Profiler
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits

SECRET = "0123456789abcdef-secret"
Scenario = Callable[[httpx.AsyncClient], Awaitable[None]]


class MadeUpJvm:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def cpu_profile(self, seconds: float) -> bytes:
        self.begun.set()
        assert self.go_on.wait(HANG_S)
        return b"FLR" + str(seconds).encode()

    def heap_profile(self) -> str:
        return "num  class"


def asked(scenario: Scenario, profiler: Profiler, token: AccessToken | None = None) -> None:
    app = make_metrics_app(make_registry(), patient_limits(), token, profiler)

    async def run() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", timeout=HANG_S
        ) as client:
            await asyncio.wait_for(scenario(client), HANG_S)

    asyncio.run(run())


def test_the_python_part_is_profiled_at_any_time() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        cpu = await client.get("/profile/cpu", params={"seconds": 0.05})
        assert (cpu.status_code, cpu.headers["content-type"].startswith("text/plain")) == (200, True)
        heap = await client.get("/profile/heap")
        assert "builtins.dict" in heap.text

    asked(scenario, Profiler())


def test_the_jvm_is_profiled_once_it_is_there() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        early = await client.get("/profile/heap", params={"part": "jvm"})
        assert (early.status_code, "not started" in early.json()["detail"]) == (503, True)
        profiler.jvm = jvm  # type: ignore[assignment]
        assert (await client.get("/profile/heap", params={"part": "jvm"})).text == "num  class"
        jvm.go_on.set()
        recording = await client.get("/profile/cpu", params={"part": "jvm", "seconds": 0.5})
        assert recording.content == b"FLR0.5"
        assert "node.jfr" in recording.headers["content-disposition"]

    profiler, jvm = Profiler(), MadeUpJvm()
    asked(scenario, profiler)


def test_one_profile_is_taken_at_a_time() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        first = asyncio.create_task(client.get("/profile/cpu", params={"part": "jvm"}))
        assert await asyncio.to_thread(jvm.begun.wait, HANG_S)
        second = await client.get("/profile/heap")
        assert (second.status_code, "another profile" in second.json()["detail"]) == (503, True)
        jvm.go_on.set()
        assert (await first).status_code == 200
        assert (await client.get("/profile/heap")).status_code == 200

    profiler, jvm = Profiler(), MadeUpJvm()
    profiler.jvm = jvm  # type: ignore[assignment]
    asked(scenario, profiler)


@pytest.mark.parametrize("wrong", [{"seconds": 21}, {"seconds": 0}, {"seconds": "nan"}, {"part": "broker"}])
def test_what_can_not_be_asked_for(wrong: dict[str, str]) -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        refused = await client.get("/profile/cpu", params=wrong)
        assert refused.status_code == 422
        assert refused.json()["faults"][0]["where"] == f"query.{next(iter(wrong))}"

    asked(scenario, Profiler())


def test_a_node_with_a_token_wants_it() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        assert (await client.get("/profile/heap")).status_code == 401
        mine = {"Authorization": f"Bearer {SECRET}"}
        assert (await client.get("/profile/heap", headers=mine)).status_code == 200

    asked(scenario, Profiler(), AccessToken(SECRET))
