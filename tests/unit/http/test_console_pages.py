"""The Console's files: served to anybody, with headers that hold the browser to this
server, and plain enough to be read."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.http.access import AccessToken
from kcontrol.adapters.http.console_pages import assets
from kcontrol.adapters.http.plane import Plane
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.cluster_projection import Projections
from tests.fakes.memory_kafka import MemoryKafka, MemorySource
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.shared_api import app_of

FOLDER = Path(__file__).parents[3] / "kcontrol" / "adapters" / "http" / "console"
FILES = {file.relative_to(FOLDER).as_posix(): file for file in FOLDER.rglob("*") if file.is_file()}
MAX_LINES = 250
SECRET = "0123456789abcdef-secret"


def asked(scenario: Callable[[httpx.AsyncClient], Awaitable[None]], token: AccessToken | None = None) -> None:
    """Runs a scenario on the whole application, which waits for Kafka."""
    clock, settings = SystemClock(), ClusterSettings(bootstrap_servers="127.0.0.1:1")
    plane = Plane(settings, Projections(MemorySource(MemoryKafka()), clock), clock, make_registry())

    async def run() -> None:
        transport = httpx.ASGITransport(app_of(plane, patient_limits(), token))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", timeout=HANG_S
        ) as client:
            await scenario(client)

    asyncio.run(run())


def test_every_file_of_the_folder_is_served_as_what_it_is() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        assert set(assets()) == set(FILES)
        for name, file in FILES.items():
            answer = await client.get(f"/console/{name}")
            assert (answer.status_code, answer.content) == (200, file.read_bytes()), name
            wanted = {
                ".html": "text/html",
                ".css": "text/css",
                ".js": "text/javascript",
                ".svg": "image/svg+xml",
            }[file.suffix]
            assert answer.headers["content-type"].startswith(wanted)

    asked(scenario)


@pytest.mark.parametrize("path", ["/", "/console", "/console/", "/console/index.html"])
def test_the_page_is_found(path: str) -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        answer = await client.get(path, follow_redirects=True)
        assert answer.url.path in ("/console/", "/console/index.html")
        assert "<title>kcontrol</title>" in answer.text
        head = await client.head(path, follow_redirects=True)
        assert (head.status_code, head.content) == (200, b"")

    asked(scenario)


def test_the_browser_is_held_to_this_server() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        for name in FILES:
            headers = (await client.get(f"/console/{name}")).headers
            policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
            assert policy["default-src"] == "'none'"
            for kind in ("script-src", "style-src", "connect-src", "img-src"):
                assert policy[kind] == "'self'"
            for kind in ("frame-ancestors", "base-uri", "form-action", "trusted-types"):
                assert policy[kind] == "'none'"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"

    asked(scenario)


def test_a_file_that_has_not_changed_is_not_sent_again() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        first = await client.get("/console/main.js")
        assert first.headers["cache-control"] == "no-cache"
        again = await client.get("/console/main.js", headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        other = await client.get("/console/main.js", headers={"If-None-Match": '"old"'})
        assert other.content == first.content

    asked(scenario)


@pytest.mark.parametrize(
    "path", ["nowhere.js", "..%2fguard.py", "../guard.py", "%2e%2e/app.py", "view", "view/", "main.js/"]
)
def test_nothing_but_the_files_is_served(path: str) -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        answer = await client.get(f"/console/{path}")
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"

    asked(scenario)


def test_the_page_needs_no_token_and_everything_else_does() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        for name in ("", *FILES):
            assert (await client.get(f"/console/{name}")).status_code == 200
        assert (await client.get("/", follow_redirects=True)).status_code == 200
        for path in (
            "/v1/pipelines",
            "/v1/metadata",
            "/v1/openapi.json",
            "/metrics",
            "/consoles",
            "/console/../v1/metadata",
        ):
            assert (await client.get(path)).status_code == 401, path

    asked(scenario, AccessToken(SECRET))


def test_without_a_token_the_page_is_for_this_machines_names_only() -> None:
    async def scenario(client: httpx.AsyncClient) -> None:
        assert (await client.get("/console/", headers={"Host": "evil.example"})).status_code == 421

    asked(scenario)


def test_no_file_asks_anybody_else_or_makes_code_of_text() -> None:
    for name, file in FILES.items():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(https?:)?//[a-z0-9]+\.", text), f"{name} names another server"
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text
        ), name
        assert "localStorage" not in text, name
    assert not re.search(
        r"\son\w+=|style=|<style|<script(?! type=\"module\" src)", FILES["index.html"].read_text()
    )


def test_every_file_is_used_says_what_it_is_for_and_is_short() -> None:
    used = {"index.html", *re.findall(r'(?:href|src)="([^"#]+)"', FILES["index.html"].read_text())}
    for name, file in FILES.items():
        text = file.read_text()
        assert len(text.splitlines()) <= MAX_LINES, name
        if file.suffix in (".js", ".css"):
            assert text.startswith("/* "), f"{name} does not say what it is for"
        used |= {
            (file.parent / each).resolve().relative_to(FOLDER).as_posix()
            for each in re.findall(r'from "(\./[^"]+|\.\./[^"]+)"', text)
        }
    assert used == set(FILES)
