"""What a server says of the safety of a pipeline's topics, with a Kafka that hangs, comes back and is gone
again."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.kafka.admin import topic_safety as module
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.apps.http_server import serve_interface
from kcontrol.errors import ClusterError
from kcontrol.settings.cluster import ClusterSettings
from tests.fakes.memory_kafka import (
    MemoryKafka,
    MemorySource,
)
from tests.support.http_world import told_in
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.processes import until
from tests.unit.core.made import SPEC


@pytest.fixture
def hung() -> Iterator[str]:
    """Address of a broker that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_a_kafka_that_hangs_delays_no_answer_about_what_is_known(
    hung: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that waited for the look would not come before the test is given up."""
    monkeypatch.setattr(module, "LOOK_TIMEOUT_S", 2 * HANG_S)
    listener, answers = Listener(HttpOptions(limits=patient_limits())), list[Any]()

    def ask() -> None:
        for _ in range(3):
            answers.append(httpx.get(f"{listener.url}/v1/pipelines/p", timeout=HANG_S).json())

    async def main() -> None:
        kafka = MemoryKafka()
        told = told_in(kafka)
        await told.begin()
        await told.step(7, 1)
        settings = ClusterSettings(bootstrap_servers=hung)
        serving = asyncio.create_task(
            serve_interface(listener, settings, MemorySource(kafka), make_registry())
        )
        ready = f"{listener.url}/health/ready"
        await asyncio.to_thread(
            until, lambda: httpx.get(ready, timeout=HANG_S).status_code == 200, "the server is ready"
        )
        await asyncio.to_thread(ask)
        listener.stop()
        await serving

    asyncio.run(asyncio.wait_for(main(), HANG_S))
    for body in answers:
        assert body["status"]["step"] == 1
        (sentence,) = body["status"]["unsafe"]
        assert sentence.startswith("whether the topics are safe is not known yet: Kafka was asked ")
        assert body["status"]["unsafe_age_ms"] is None


def test_what_was_known_is_said_with_its_age_until_it_is_known_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[list[str] | Exception] = [
        ["one broker"],
        ClusterError("no broker answers"),
        ValueError("a bug"),
        [],
    ]
    asked: list[float] = []
    clock = {"s": 1_000.0}

    def looked_at(*_: object) -> list[str]:
        asked.append(clock["s"])
        answer = said[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(module, "_looked_at", looked_at)
    safety = module.KeptSafety(
        ClusterSettings(bootstrap_servers="127.0.0.1:1"), monotonic_s=lambda: clock["s"]
    )
    until(lambda: safety.of(SPEC).sentences == ("one broker",), "it is known")
    clock["s"] += module.KEPT_S - 1
    assert safety.of(SPEC) == module.KnownSafety(("one broker",), 59_000)
    assert len(asked) == 1
    clock["s"] += 1
    assert safety.of(SPEC).sentences[0] == "one broker"
    until(lambda: len(safety.of(SPEC).sentences) == 2, "it is said that it can't be looked at")
    still = "whether the topics are still safe can't be looked at: no broker answers"
    assert safety.of(SPEC) == module.KnownSafety(("one broker", still), 60_000)
    clock["s"] += module.RETRY_S
    until(
        lambda: "error that the log of this process shows" in safety.of(SPEC).sentences[-1],
        "a bug ends nothing for good",
    )
    clock["s"] += module.RETRY_S
    until(lambda: safety.of(SPEC) == module.KnownSafety((), 0), "Kafka is asked again soon")
    assert asked == [1_000.0, 1_060.0, 1_065.0, 1_070.0]


class Meddling:
    """A lock. The first time that another thread gives it back with an error known, somebody asks again before that thread goes
    on."""

    def __init__(self, safety: module.KeptSafety, ask: Callable[[], object]) -> None:
        self._lock, self._safety, self._ask = threading.Lock(), safety, ask
        self._owner, self._has_meddled = threading.current_thread(), False

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        is_wrong = any(each.error for each in self._safety._all.values())
        self._lock.release()
        if is_wrong and not self._has_meddled and threading.current_thread() is not self._owner:
            self._has_meddled = True
            self._ask()


def test_who_asks_while_a_look_ends_by_a_bug_is_not_left_to_a_thread_that_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[list[str] | Exception] = [ValueError("a bug"), []]
    clock = {"s": 1_000.0}

    def looked_at(*_: object) -> list[str]:
        answer = said.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask() -> None:
        clock["s"] += module.RETRY_S
        safety.of(SPEC)

    monkeypatch.setattr(module, "_looked_at", looked_at)
    settings = ClusterSettings(bootstrap_servers="127.0.0.1:1")
    safety = module.KeptSafety(settings, monotonic_s=lambda: clock["s"])
    monkeypatch.setattr(safety, "_lock", Meddling(safety, ask))
    until(lambda: safety.of(SPEC) == module.KnownSafety((), 0), "Kafka is asked again")
