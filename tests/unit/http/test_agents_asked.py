"""Jobs are killed and tried again, and hosts drained, over HTTP, by whoever asks the agents."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import httpx
import pytest
from prometheus_client import CollectorRegistry

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.http.plane import Plane
from kcontrol.errors import NotFoundError
from kcontrol.requests.agents import AskAgents, Asked, HostDrainAsked, JobKillAsked, JobRetryAsked
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import LoggedEntry
from tests.support.shared_api import api_of


def post(path: str, ask: AskAgents | None = None) -> tuple[int, Any]:
    async def play() -> tuple[int, Any]:
        nobody = ClusterSettings(bootstrap_servers="127.0.0.1:1")
        more = {} if ask is None else {"ask_agents": ask}
        plane = Plane(nobody, cast(Any, None), SystemClock(), CollectorRegistry(), **cast(Any, more))
        transport = httpx.ASGITransport(api_of(plane))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            answer = await client.post(path)
        return answer.status_code, answer.json()

    return asyncio.run(play())


@pytest.mark.parametrize(
    ("path", "order"),
    [
        ("jobs/flights/kill", JobKillAsked("flights")),
        ("jobs/flights/retry", JobRetryAsked("flights")),
        ("agents/host-7.example/drain", HostDrainAsked("host-7.example", on=True)),
        ("agents/host-7/drain?off=true", HostDrainAsked("host-7", on=False)),
    ],
)
def test_what_is_asked_is_answered_with_the_entry_by_which_it_counts(path: str, order: Asked) -> None:
    asked: list[Asked] = []

    async def ask(one: Asked) -> LoggedEntry:
        asked.append(one)
        return LoggedEntry(7, 9, "Entry", "", ("what changed",))

    status, answer = post(f"/v1/cluster/{path}", ask)
    assert status == 200
    assert answer == {"offset": 7, "at_ms": 9, "kind": "Entry", "rejected": "", "changes": ["what changed"]}
    assert asked == [order]


def test_what_does_not_count_is_a_problem_with_the_reason() -> None:
    async def ask(_order: Asked) -> LoggedEntry:
        raise NotFoundError("it was not taken: no such job is active")

    status, answer = post("/v1/cluster/jobs/flights/kill", ask)
    assert (status, answer["detail"]) == (404, "it was not taken: no such job is active")
    assert post("/v1/cluster/jobs/flights/kill")[0] == 404
    assert post("/v1/cluster/jobs/Flights!/kill", ask)[0] in (400, 422)
