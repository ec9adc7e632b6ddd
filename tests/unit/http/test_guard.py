"""What every request passes: who asks, how many, how large, for how long. Refusals have the one shape of
errors."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request

from kcontrol.adapters.http.access import AccessToken, check_address, read_token
from kcontrol.adapters.http.guard import RequestGuard
from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.http.problems import add_handlers
from kcontrol.errors import ConfigurationError
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits

SECRET = "0123456789abcdef-secret"
Client = httpx.AsyncClient


def asked(
    scenario: Callable[[Client], Awaitable[Any]],
    limits: HttpLimits | None = None,
    token: AccessToken | None = None,
    url: str = "http://127.0.0.1",
    begun: asyncio.Event | None = None,
) -> Any:
    """Runs a scenario on an application that has one slow operation (`begun` is set in it), one that reads
    its body, one that breaks, and a probe."""
    api = FastAPI()
    add_handlers(api)

    @api.get("/slow")
    @api.get("/v1/pipelines/{pipeline}/outputs/{output}/stream")
    async def slow() -> str:
        if begun is not None:
            begun.set()
        await asyncio.Event().wait()
        return "never"

    @api.post("/body")
    async def body(request: Request) -> int:
        return len(await request.body())

    @api.get("/health/live")
    async def live() -> str:
        return "live"

    @api.get("/broken")
    async def broken() -> str:
        raise LookupError("of the inside")

    async def run() -> Any:
        transport = httpx.ASGITransport(
            RequestGuard(api, limits or patient_limits(), token), raise_app_exceptions=False
        )
        async with Client(transport=transport, base_url=url, timeout=HANG_S) as client:
            return await asyncio.wait_for(scenario(client), HANG_S)

    return asyncio.run(run())


def is_problem(answer: httpx.Response, status: int, name: str) -> str:
    """The detail of a response that must be this problem."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["type"] == f"urn:kcontrol:problem:{name}"
    assert found["status"] == status
    assert found["detail"]
    assert found["remedy"]
    assert found["instance"] == answer.request.url.path
    detail: str = found["detail"]
    return detail


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", f"Basic {SECRET}", f"Bearer {SECRET}x", "Bearer \xe9"]
)
def test_without_the_token_nothing_but_probes_is_answered(header: str | None) -> None:
    async def scenario(client: Client) -> None:
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        refused = await client.post("/body", headers=headers)
        is_problem(refused, 401, "unauthorized")
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert (await client.get("/health/live", headers=headers)).status_code == 200

    asked(scenario, token=AccessToken(SECRET), url="http://kcontrol.example")


def test_with_the_token_everything_is_answered_and_the_token_is_shown_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)

    async def scenario(client: Client) -> None:
        headers = {"Authorization": f"bearer {SECRET}"}
        assert (await client.post("/body", content=b"abc", headers=headers)).json() == 3
        is_problem(await client.get("/broken", headers=headers), 500, "internal")
        is_problem(await client.get("/nowhere", headers=headers), 404, "not-found")

    token = AccessToken(SECRET)
    asked(scenario, token=token, url="http://kcontrol.example")
    assert "of the inside" in caplog.text
    assert SECRET not in caplog.text
    assert SECRET not in f"{token!r} {HttpOptions(token=token)!r}"


def test_without_a_token_the_pages_that_somebody_has_open_can_do_nothing() -> None:
    async def scenario(client: Client) -> None:
        for host in ("evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "["):
            is_problem(await client.post("/body", headers={"Host": host}), 421, "foreign-host")
        for host in ("localhost:80", "127.0.0.1:8480", "[::1]:80"):
            assert (await client.post("/body", headers={"Host": host})).status_code == 200
        foreign = {"Origin": "http://evil.example"}
        is_problem(await client.post("/body", headers=foreign), 403, "foreign-origin")
        is_problem(await client.post("/body", headers={"Origin": "null"}), 403, "foreign-origin")
        assert (await client.get("/health/live", headers=foreign)).status_code == 200
        assert (await client.post("/body", headers={"Origin": "http://127.0.0.1"})).status_code == 200

    asked(scenario)


def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"12345"

    async def scenario(client: Client) -> None:
        assert (await client.post("/body", content=b"1234567890")).json() == 10
        is_problem(await client.post("/body", content=b"12345678901"), 413, "too-large")
        answer = await client.post("/body", content=chunks())
        assert answer.status_code == 413
        assert "10 bytes" in answer.json()["detail"]

    asked(scenario, patient_limits(max_body_bytes=10))


def test_more_requests_at_a_time_than_allowed_are_turned_away_but_never_probes() -> None:
    begun = asyncio.Event()

    async def scenario(client: Client) -> None:
        slow = asyncio.create_task(client.get("/slow"))
        await begun.wait()
        refused = await client.post("/body")
        is_problem(refused, 503, "busy")
        assert refused.headers["retry-after"] == "1"
        assert (await client.get("/health/live")).status_code == 200
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)
        assert (await client.post("/body")).status_code == 200

    asked(scenario, patient_limits(max_concurrent=1), begun=begun)


def test_streams_have_a_limit_of_their_own_and_leave_room_for_others() -> None:
    begun = asyncio.Event()

    async def scenario(client: Client) -> None:
        stream = "/v1/pipelines/p/outputs/o/stream"
        slow = asyncio.create_task(client.get(stream))
        await begun.wait()
        assert (await client.post("/body")).status_code == 200
        refused = await client.get(stream)
        assert "1 outputs are being streamed" in is_problem(refused, 503, "busy")
        assert refused.headers["retry-after"] == "1"
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)

    asked(scenario, HttpLimits(max_concurrent=1, max_streams=1), begun=begun)


def test_a_request_that_takes_too_long_ends() -> None:
    async def scenario(client: Client) -> None:
        assert "0.05 s" in is_problem(await client.get("/slow"), 504, "timeout")

    asked(scenario, HttpLimits(request_timeout_s=0.05))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "kcontrol.example"])
def test_an_address_of_others_needs_a_token(host: str) -> None:
    with pytest.raises(ConfigurationError, match="--token-file"):
        check_address(host, None)
    check_address(host, AccessToken(SECRET))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_an_address_of_this_machine_needs_none(host: str) -> None:
    check_address(host, None)


@pytest.mark.parametrize("content", ["", "short", "two words of 16 letters", "é" * 40, "x" * 5_000])
def test_a_token_file_that_will_not_do_is_named_but_not_its_contents(tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=r"token.*openssl rand") as refused:
        read_token(file)
    assert not content or content not in str(refused.value)
    with pytest.raises(ConfigurationError, match="nowhere"):
        read_token(tmp_path / "nowhere")


def test_a_token_file_may_end_with_a_new_line(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    assert read_token(file).matches(f"Bearer {SECRET}")


def test_an_address_that_is_taken_is_an_error_before_anything_is_started() -> None:
    first = Listener(HttpOptions())
    port = int(first.url.rpartition(":")[2])
    with pytest.raises(ConfigurationError, match=f"port {port}"):
        Listener(HttpOptions(port=port))


def test_others_are_told_an_address_that_they_can_reach() -> None:
    here, everywhere = Listener(HttpOptions()), Listener(HttpOptions("0.0.0.0", token=AccessToken(SECRET)))
    assert here.reachable_url == here.url
    port = everywhere.url.rpartition(":")[2]
    assert everywhere.reachable_url == f"http://{socket.gethostname()}:{port}"
