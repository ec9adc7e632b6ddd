"""Rows of an output as server-sent events: whole steps in order, on through a SIGKILL of the server, void ones told."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.docs.blocks import blocks_of
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.patience import HANG_S
from tests.support.ports import free_ports
from tests.support.processes import KcontrolProcess, until

pytestmark = pytest.mark.timeout(300)
"""A stream that says nothing but that it is there does not end a read."""

PATH = f"/v1/pipelines/{PIPELINE}/outputs/delays/stream"


@dataclass
class Event:
    """One event; id: of its own, or ''."""

    name: str
    id: str
    data: Any


@dataclass
class Server:
    """`kcontrol serve` in a process of its own."""

    url: str
    process: KcontrolProcess

    @contextmanager
    def lines(self, after: int | None = None, last_event_id: str = "") -> Iterator[Iterator[str]]:
        """Of one request."""
        query = {} if after is None else {"after": after}
        headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
        _ready(self)
        deadline_s = time.monotonic() + HANG_S
        while True:
            with httpx.stream(
                "GET", self.url + PATH, params=query, headers=headers, timeout=HANG_S
            ) as answer:
                # The server may not have noticed yet that the one before was closed.
                if answer.status_code == 503 and time.monotonic() < deadline_s:
                    continue
                assert answer.status_code == 200, answer.read()
                assert answer.headers["content-type"].startswith("text/event-stream")
                yield answer.iter_lines()
                return

    @contextmanager
    def events(self, after: int | None = None, last_event_id: str = "") -> Iterator[Iterator[Event]]:
        """As `lines`."""
        with self.lines(after, last_event_id) as lines:
            yield _parsed(lines)

    def refused(
        self, status: int, path: str = PATH, headers: dict[str, str] | None = None, **query: Any
    ) -> str:
        answer = httpx.get(self.url + path, params=query, headers=headers, timeout=HANG_S)
        assert answer.status_code == status, answer.text
        return str(answer.json()["detail"])


def _parsed(lines: Iterator[str]) -> Iterator[Event]:
    """As the specification has it: an event ends with an empty line; a comment is none."""
    fields: dict[str, str] = {}
    for line in lines:
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
            continue
        if "data" in fields:
            yield Event(fields["event"], fields.get("id", ""), json.loads(fields["data"]))
        fields = {}


@pytest.fixture
def maker(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    return StepsMaker(settings, topic_factory)


@contextmanager
def _serving(maker: StepsMaker, directory: Path, *more: str) -> Iterator[Server]:
    [port] = free_ports(1)
    (directory / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{maker.settings.bootstrap_servers}"\nprefix = "{maker.settings.prefix}"\n'
    )
    command = ["serve", "--port", str(port), *more]
    with KcontrolProcess(*command, log=directory / "serve.log", cwd=directory) as process:
        server = Server(f"http://127.0.0.1:{port}", process)
        _ready(server)
        yield server


def _ready(server: Server) -> None:
    def ready() -> bool:
        try:
            return httpx.get(f"{server.url}/health/ready", timeout=HANG_S).status_code == 200
        except httpx.TransportError:
            return False

    until(ready, "the server is ready", HANG_S, server.process.text)


def _values(number: int) -> list[bytes]:
    return [b"%d-%d" % (number, index) for index in range(4)]


def _step(maker: StepsMaker, number: int) -> None:
    maker.aborted(number, {"delays": {0: _values(1_000 + number)}})
    maker.step(number, {"delays": {0: _values(number)[:3], 1: _values(number)[3:]}})


def _last_step(server: Server) -> int:
    answer = httpx.get(f"{server.url}/v1/pipelines/{PIPELINE}/steps", timeout=HANG_S)
    return int(answer.json().get("last", 0))


def _until_step(events: Iterator[Event], number: int) -> list[Event]:
    found = []
    for event in events:
        found.append(event)
        if event.name == "step" and _number(event) == number:
            return found
    raise AssertionError(f"the stream ended before step {number}: {found}")


def _number(event: Event) -> int:
    """The step in an event's id; behind it stands the log that it is of."""
    return int(event.id.partition("@")[0])


def _rows(events: Sequence[Event]) -> list[tuple[int, str]]:
    return [(event.data["step"], event.data["value"]) for event in events if event.name == "row"]


def _expected(*numbers: int) -> list[tuple[int, str]]:
    return [(number, value.decode()) for number in numbers for value in _values(number)]


def test_steps_come_whole_in_order_and_resume_after_the_last_through_a_sigkill(
    maker: StepsMaker, tmp_path: Path
) -> None:
    for number in (1, 2):
        _step(maker, number)
    maker.step(3, {"totals": {0: [b"x"]}})
    taken: list[tuple[int, str]] = []
    with _serving(maker, tmp_path, "--max-streams", "2") as server:
        with server.events(after=0) as events:
            first = _until_step(events, 3)
        assert [_number(event) for event in first if event.name == "step"] == [1, 2, 3]
        assert first[-1].data == {
            "step": 3,
            "rows": 0,
            "follows": 2,
            "committed_ms": first[-1].data["committed_ms"],
        }
        assert {name: first[0].data[name] for name in ("step", "partition", "key")} == {
            "step": 1,
            "partition": 0,
            "key": "1",
        }
        taken += _rows(first)
        with server.events(after=0, last_event_id="1") as events:
            assert _rows(_until_step(events, 2)) == _expected(2), (
                "an EventSource sends its id beside the first query"
            )
        with server.events(last_event_id="3") as events:
            _step(maker, 4)
            half = next(events)
            assert half.data["value"] == _values(4)[0].decode()
            server.process.kill()
        server.process.start()
        _ready(server)
        with server.events(last_event_id=first[-1].id) as events:
            taken += _rows(_until_step(events, 4))
        with server.events() as events:
            _step(maker, 5)
            taken += _rows(_until_step(events, 5))
    assert taken == _expected(1, 2, 4, 5)


def test_whoever_is_cut_off_before_the_first_step_asks_again_behind_the_one_that_was_newest(
    maker: StepsMaker, tmp_path: Path
) -> None:
    """As an EventSource does, which keeps an id that comes without an event."""
    _step(maker, 1)
    with _serving(maker, tmp_path, "--max-streams", "2") as server:
        until(lambda: _last_step(server) == 1, "the server knows the step", HANG_S, server.process.text)
        with server.lines() as lines:
            begin = list(iter(partial(next, lines), ""))
        _step(maker, 2)
        until(lambda: _last_step(server) == 2, "the server knows the step", HANG_S, server.process.text)
        had = next((line.removeprefix("id: ") for line in begin if line.startswith("id: ")), "")
        with server.events(last_event_id=had) as events:
            _step(maker, 3)
            assert _rows(_until_step(events, 3)) == _expected(2, 3)


def test_void_steps_are_told_once_to_whoever_has_them_and_never_given(
    maker: StepsMaker, tmp_path: Path
) -> None:
    for number in (1, 2, 3):
        _step(maker, number)
    with _serving(maker, tmp_path, "--max-streams", "3") as server, server.events(after=0) as events:
        _until_step(events, 3)
        maker.reset(4, to_step=1)
        _step(maker, 5)
        told = _until_step(events, 5)
        assert told[0] == Event("voided", told[0].id, {"to_step": 1, "reset": 4, "why": "a test"})
        assert _number(told[0]) == 4
        assert _rows(told) == _expected(5)
        with server.events(after=0) as again:
            found = _until_step(again, 5)
        assert _rows(found) == _expected(1, 5)
        assert [event.name for event in found if event.name != "row"] == ["step", "step"]
        with server.events(last_event_id="3") as late:
            found = _until_step(late, 5)
        assert [_number(event) for event in found if event.name != "row"] == [4, 5]
        assert found[-1].data["follows"] == 1


def test_what_cant_be_streamed_is_refused_before_it_begins(maker: StepsMaker, tmp_path: Path) -> None:
    _step(maker, 1)
    with _serving(maker, tmp_path, "--max-streams", "1") as server:
        assert "no output 'nothing'" in server.refused(404, PATH.replace("delays", "nothing"))
        assert "has no pipeline" not in server.refused(404, PATH.replace(PIPELINE, "other"))
        assert "is not the number of a step" in server.refused(422, headers={"Last-Event-ID": "x1"})
        assert "there is no such parameter" in json.dumps(
            httpx.get(server.url + PATH, params={"from": 1}, timeout=HANG_S).json()
        )
        assert "was asked for what follows step 9" in server.refused(409, after=9)
        other = "1@ofAnotherLogOfThisName"
        assert "was deleted and made anew" in server.refused(409, headers={"Last-Event-ID": other})
        assert "was deleted and made anew" in server.refused(409, after=1, log=other.partition("@")[2])
        with server.events(after=0) as events:
            _until_step(events, 1)
            assert "1 outputs are being streamed" in server.refused(503, after=0)
        metrics = httpx.get(server.url + "/metrics", timeout=HANG_S).text
        each = f'{{output="delays",pipeline="{PIPELINE}"}}'
        assert f"kcontrol_streamed_steps_total{each} 1.0" in metrics
        # A stream that has just been closed may have been in the way of this one, too.
        (refused,) = re.findall(re.escape(f"kcontrol_streams_refused_total{each}") + r" (\d+)\.0", metrics)
        assert int(refused) >= 1
        assert "kcontrol_streams_limit 1.0" in metrics

        def is_free() -> bool:
            with httpx.stream("GET", server.url + PATH, params={"after": 0}, timeout=HANG_S) as answer:
                return answer.status_code == 200

        until(is_free, "the place is free again", HANG_S)


def test_the_page_comes_true(maker: StepsMaker, tmp_path: Path) -> None:
    """Its command gives events with exactly the fields that the page shows."""
    command, shown = (
        block.text for block in blocks_of("docs/rest.md") if block.argument.endswith("test_output_stream.py")
    )
    _step(maker, 1)
    with _serving(maker, tmp_path, "--max-streams", "1") as server:
        here = (
            command.replace("localhost:8480", server.url)
            .replace("/p/", f"/{PIPELINE}/")
            .replace("after=41", "after=0")
        )
        with subprocess.Popen(shlex.split(here), stdout=subprocess.PIPE, text=True) as curl:
            assert curl.stdout is not None
            found = _until_step(_parsed(line.rstrip("\n") for line in curl.stdout), 1)
            curl.kill()
    documented = {event.name: event.data.keys() for event in _parsed(iter([*shown.splitlines(), ""]))}
    assert {event.name: event.data.keys() for event in found} == documented
