"""Questions over HTTP: answered, handed on to a query server, and refused in the one shape of errors."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.http.access import AccessToken
from kcontrol.adapters.http.app import make_query_app
from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.http.plane import Plane
from kcontrol.adapters.http.queries import Ask
from kcontrol.adapters.http.query_client import QueryClient
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.errors import CheckpointError, ConfigurationError, NotFoundError
from kcontrol.requests.table_questions import (
    AnswerTooLateError,
    QueryServerError,
    StatementRefusedError,
    TableAnswer,
    TableColumn,
    TableQuestion,
    nobody_answers,
)
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.cluster_projection import Projections
from tests.fakes.memory_kafka import MemoryKafka, MemorySource
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.shared_api import app_of

SECRET = "0123456789abcdef-secret"
PATIENT = patient_limits()
PATH = "/v1/pipelines/p/query"
ANSWER = TableAnswer("p", 7, 1_007, [TableColumn("n", "bigint")], [[1], [None]], True, ["a note"])
TOLD = {
    "pipeline": "p", "step": 7, "step_ms": 1_007, "columns": [{"name": "n", "type": "bigint"}],
    "rows": [[1], [None]], "more": True, "notes": ["a note"],
}  # fmt: skip


@dataclass
class Oracle:
    """Answers, or raises what it was told to, and keeps what it was asked."""

    error: Exception | None = None
    asked: list[TableQuestion] = field(default_factory=list)

    async def ask(self, question: TableQuestion) -> TableAnswer:
        self.asked.append(question)
        if self.error is not None:
            raise self.error
        return ANSWER


@contextmanager
def query_server(oracle: Oracle, token: str = "") -> Iterator[str]:
    """A real one on a socket, without a Spark."""
    given = AccessToken(token) if token else None
    listener = Listener(HttpOptions(limits=PATIENT, token=given))
    begun = threading.Event()

    async def run() -> None:
        begun.set()
        await listener.serve(make_query_app(oracle.ask, PATIENT, given))

    with listener.in_thread(run):
        assert begun.wait(HANG_S)
        yield listener.url


def serving(ask: Ask, scenario: Callable[[httpx.AsyncClient], Any]) -> None:
    async def run() -> None:
        registry, clock = make_registry(), SystemClock()
        projections = Projections(MemorySource(MemoryKafka()), clock)
        plane = Plane(ClusterSettings(bootstrap_servers="127.0.0.1:1"), projections, clock, registry, ask=ask)
        transport = httpx.ASGITransport(app_of(plane, PATIENT, None))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            await scenario(client)

    asyncio.run(run())


def test_a_question_is_handed_on_and_its_answer_comes_back(tmp_path: Path) -> None:
    oracle, file = Oracle(), tmp_path / "token"
    file.write_text(SECRET)

    async def scenario(client: httpx.AsyncClient) -> None:
        answer = await client.post(PATH, json={"sql": "SELECT 1"})
        assert (answer.status_code, answer.json()) == (200, TOLD)
        await client.post(PATH, json={"sql": "SELECT 2", "step": 3, "limit": 5, "timeout_s": 4})

    with query_server(oracle, SECRET) as url:
        assert httpx.post(url + PATH, json={"sql": "SELECT 1"}, timeout=HANG_S).status_code == 401
        serving(QueryClient(url, file, HANG_S).ask, scenario)
    assert oracle.asked == [
        TableQuestion("p", "SELECT 1", None, None, HANG_S - 2),
        TableQuestion("p", "SELECT 2", 3, 5, 4),
    ]


PROBLEMS = {
    StatementRefusedError("not so"): (422, "statement-refused"),
    ConfigurationError("not so"): (422, "wrong-request"),
    NotFoundError("not so"): (404, "not-found"),
    CheckpointError("not so"): (409, "checkpoint"),
    AnswerTooLateError("not so"): (504, "too-late"),
    QueryServerError("not so"): (503, "no-query-server"),
}


@pytest.mark.parametrize(("error", "told"), PROBLEMS.items(), ids=lambda each: type(each).__name__)
def test_a_refusal_is_the_same_from_the_query_server_and_from_whoever_hands_on(
    error: Exception, told: tuple[int, str]
) -> None:
    with query_server(Oracle(error)) as url:
        direct = httpx.post(url + PATH, json={"sql": "x"}, timeout=HANG_S)

        async def scenario(client: httpx.AsyncClient) -> None:
            answer = await client.post(PATH, json={"sql": "x"})
            assert (answer.status_code, answer.json()) == (direct.status_code, direct.json())

        serving(QueryClient(url, None, HANG_S).ask, scenario)
    problem = direct.json()
    assert (direct.status_code, problem["type"]) == (told[0], f"urn:kcontrol:problem:{told[1]}")
    assert (problem["detail"], problem["instance"]) == ("not so", PATH)


def test_without_a_query_server_the_server_says_what_to_start() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        answer = await client.post(PATH, json={"sql": "SELECT 1"})
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:kcontrol:problem:no-query-server"
        assert "start `kcontrol query-server`" in answer.json()["detail"]
        wrong = await client.post(PATH, json={"sql": "SELECT 1", "steps": 3})
        assert wrong.status_code == 422
        assert "steps" in wrong.json()["detail"]

    serving(nobody_answers, scenario)


def test_a_query_server_that_is_away_or_refuses_us_is_named(tmp_path: Path) -> None:
    async def refused(url: str, said: str) -> None:
        with pytest.raises(QueryServerError, match=said):
            await QueryClient(url, None, HANG_S).ask(TableQuestion("p", "SELECT 1"))

    asyncio.run(refused("http://127.0.0.1:1", "http://127.0.0.1:1 can't be reached"))
    with query_server(Oracle(), SECRET) as url:
        asyncio.run(
            refused(url, "does not let this server ask .401.: give its token with --query-token-file")
        )


def test_a_question_is_given_up_with_the_request_and_not_with_its_own_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The query server cancels it, which takes a while, and says so."""
    given: list[float] = []

    def urlopen(request: urllib.request.Request, timeout: float) -> Any:
        assert isinstance(request.data, bytes)
        given.extend((json.loads(request.data)["timeout_s"], timeout))
        raise TimeoutError("timed out")

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    with pytest.raises(QueryServerError, match="can't be reached: timed out"):
        asyncio.run(
            QueryClient("http://127.0.0.1:1", None, 30).ask(TableQuestion("p", "SELECT 1", timeout_s=2))
        )
    assert given == [2, 29]


@pytest.mark.parametrize(
    "url", ["localhost:8481", "ftp://host", "http://", "http://host/path", "http://host?x=1"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--query-server"):
        QueryClient(url, None, 30)
