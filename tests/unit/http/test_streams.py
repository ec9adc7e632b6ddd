"""Server-sent events of an output: their text, when a stream ends, and what a client that does not read, or has gone, costs."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from kcontrol.adapters.http import streams as streaming
from kcontrol.adapters.http.output_pieces import OutputStreams, Piece, Rows, StepDone, Voided
from kcontrol.adapters.http.streams import _events, _had
from kcontrol.adapters.metrics.streams import StreamMetrics
from kcontrol.errors import ConfigurationError, InputGoneError
from tests.support.patience import HANG_S

LONG_S = 10 * HANG_S
"""No stream is so long."""


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None
    partition: int = 0
    offset: int = 7
    timestamp_ms: int = 5


class Script:
    """Pieces that are given one by one; then none."""

    def __init__(self, pieces: Sequence[Piece | Exception | None]) -> None:
        self.left, self.taken, self.closed = list(pieces), 0, 0

    def begin(self) -> str:
        return "LOG"

    def take(self) -> Piece | None:
        self.taken += 1
        piece = self.left.pop(0) if self.left else None
        if isinstance(piece, Exception):
            raise piece
        return piece

    def close(self) -> None:
        self.closed += 1


def streams(script: Script, longest_s: float = LONG_S) -> OutputStreams:
    return OutputStreams(lambda *_: script, most=1, longest_s=longest_s)


def begun(of: OutputStreams, value_format: str = "json") -> AsyncGenerator[str, None]:
    return cast(AsyncGenerator[str, None], _events(of.begin("p", "o", 2), value_format, "LOG", 2))


def events(
    script: Script, longest_s: float = LONG_S, value_format: str = "json"
) -> AsyncGenerator[str, None]:
    return begun(streams(script, longest_s), value_format)


async def first(script: Script, count: int, value_format: str = "json") -> list[str]:
    """So many texts; then the client goes."""
    stream = events(script, value_format=value_format)
    found = [await anext(stream) for _ in range(count)]
    await stream.aclose()
    return found


def test_rows_have_no_id_and_their_step_has() -> None:
    script = Script(
        [Rows(3, [Record(b"k", b'{"a": 1.10}')]), StepDone(3, 1, 2, 9), Voided(1, 5, "bad\ninput"), None]
    )
    assert asyncio.run(first(script, 5)) == [
        "retry: 1000\nid: 2@LOG\n\n",
        'event: row\ndata: {"step":3,"partition":0,"offset":7,"timestamp_ms":5,"key":"k","value":{"a": 1.10}}\n\n',
        'event: step\nid: 3@LOG\ndata: {"step":3,"rows":1,"follows":2,"committed_ms":9}\n\n',
        'event: voided\nid: 5@LOG\ndata: {"to_step":1,"reset":5,"why":"bad\\ninput"}\n\n',
        ": nothing yet\n\n",
    ]


@pytest.mark.parametrize(
    ("value", "value_format", "shown"),
    [
        (b'{\n"a":\r\n1}', "json", {"a": 1}),
        (b"not json", "json", "not json"),
        (b"NaN", "json", "NaN"),
        (b"[" * 100_000, "json", "[" * 100_000),
        (b"\xff", "json", {"base64": "/w=="}),
        (b"1", "raw", "1"),
        ("ü\n".encode(), "raw", "ü\n"),
        (b"\x00\xff", "avro", {"base64": "AP8="}),
        (None, "json", None),
    ],
)
def test_any_value_is_one_line_of_json(value: bytes | None, value_format: str, shown: object) -> None:
    _, text = asyncio.run(first(Script([Rows(1, [Record(None, value)])]), 2, value_format))
    name, data, *rest = text.split("\n")
    assert (name, rest) == ("event: row", ["", ""])
    assert json.loads(data.removeprefix("data: "))["value"] == shown


def test_an_id_names_the_step_and_its_log_and_those_of_before_the_step_alone() -> None:
    new, old = _had("42@r0Vqk0YcRUq2vwXHxBPq3A"), _had("42")
    assert (new.step, new.log_id) == (42, "r0Vqk0YcRUq2vwXHxBPq3A")
    assert (old.step, old.log_id) == (42, "")
    for wrong in ("", "x1", "-1", "1@", "@log", "1@a@b", "1@a b", "9" * 19):
        with pytest.raises(ConfigurationError, match="is not the number of a step"):
            _had(wrong)


def test_nothing_is_taken_before_the_client_has_taken_what_came_before() -> None:
    script = Script([Rows(1, [Record(None, b"1")])] * 9)

    async def run() -> None:
        stream = events(script)
        for taken in range(3):
            await anext(stream)
            assert script.taken == taken
        await stream.aclose()

    asyncio.run(run())
    assert (script.taken, script.closed) == (2, 1)


def test_a_stream_that_is_long_enough_ends_behind_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr(streaming, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    row = Rows(1, [Record(None, b"1")])
    script = Script([row, row, StepDone(1, 2, 0, 9), Rows(2, [])])

    async def run() -> list[str]:
        stream = events(script, longest_s=60.0)
        begun = [await anext(stream), await anext(stream)]
        now_s[0] = 61.0
        return [*begun, *[text async for text in stream]]

    assert [text.partition("\n")[0] for text in asyncio.run(run())] == [
        "retry: 1000",
        "event: row",
        "event: row",
        "event: step",
    ]


def test_what_ends_it_is_told_as_an_event() -> None:
    script = Script([InputGoneError("records are gone")])

    async def run() -> list[str]:
        return [text async for text in events(script)]

    assert asyncio.run(run())[-1] == 'event: problem\ndata: {"detail":"records are gone"}\n\n'
    assert script.closed == 1


def test_a_client_that_has_gone_frees_its_place_begun_or_not() -> None:
    script = Script([])
    of = streams(script)

    async def run() -> None:
        stream = begun(of)
        await anext(stream)
        assert of.running == 1
        await stream.aclose()
        assert (of.running, script.closed) == (0, 1)

    asyncio.run(run())
    never = OutputStreams(lambda *_: Script([]), most=1, longest_s=1)
    response = begun(never)
    assert never.running == 1
    del response
    gc.collect()
    assert never.running == 0


class Waiting:
    """Says nothing until it may."""

    def __init__(self, may: threading.Event) -> None:
        self._may, self.asked, self.closed = may, threading.Event(), 0

    def begin(self) -> str:
        return "LOG"

    def take(self) -> Piece | None:
        self.asked.set()
        self._may.wait(HANG_S)
        return None

    def close(self) -> None:
        self.closed += 1


def test_streams_that_wait_leave_the_threads_of_other_requests_alone() -> None:
    """Rows that are pushed are parsed in a thread of the loop's own, of which there are 32 at most."""
    may = threading.Event()
    waiting = [Waiting(may) for _ in range(40)]

    async def run() -> int:
        left = iter(waiting)
        of = OutputStreams(lambda *_: next(left), most=40, longest_s=60)
        each = [begun(of) for _ in waiting]
        for one in each:
            await anext(one)
        taking = [asyncio.ensure_future(anext(one)) for one in each]
        await asyncio.sleep(0)
        try:
            found = await asyncio.wait_for(asyncio.to_thread(lambda: 7), HANG_S / 2)
        finally:
            may.set()
            await asyncio.gather(*taking)
            for one in each:
                await one.aclose()
        await of.close()
        return found

    assert asyncio.run(run()) == 7
    assert all(one.asked.is_set() and one.closed == 1 for one in waiting)


def test_a_stream_whose_client_has_gone_keeps_its_place_until_its_thread_is_free() -> None:
    may = threading.Event()
    waiting = Waiting(may)

    async def run() -> None:
        of = OutputStreams(lambda *_: waiting, most=1, longest_s=60)
        stream = begun(of)
        await anext(stream)
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.to_thread(waiting.asked.wait, HANG_S)
        reading.cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert (of.running, waiting.closed) == (1, 0)
        may.set()
        await asyncio.wait((reading,))
        assert reading.cancelled()
        assert (of.running, waiting.closed) == (0, 1)
        await of.close()

    asyncio.run(run())


def test_metrics_tell_what_was_streamed_and_what_was_not() -> None:
    registry = CollectorRegistry()
    script = Script(
        [
            Rows(3, [Record(None, b"1"), Record(None, b"2")]),
            StepDone(3, 2, 2, 5),
            None,
            InputGoneError("gone"),
        ]
    )
    of = OutputStreams(lambda *_: script, most=4, longest_s=LONG_S)
    metrics = of.observer = StreamMetrics(registry, lambda: of.running, of.most)

    def told(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"kcontrol_{name}", labels)

    async def run() -> None:
        stream = begun(of)
        await anext(stream)
        assert (told("streams"), told("streams_limit")) == (1, 4)
        async for _ in stream:
            pass

    asyncio.run(run())
    metrics.refused("p", "o")
    each = {"pipeline": "p", "output": "o"}
    assert told("streams") == 0
    assert (told("streamed_rows_total", **each), told("streamed_steps_total", **each)) == (2, 1)
    assert (told("streams_failed_total", **each), told("streams_refused_total", **each)) == (1, 1)
