"""Queries that are bound in a thread for a layout that nobody wants any more: no cancelling ends it."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from kcontrol.definition.pipeline import Pipeline
from tests.support.patience import HANG_S
from tests.unit.sessions import test_making_ready
from tests.unit.sessions.test_making_ready import MORE, _looking

world = test_making_ready.world
_LOOKS = 50


class _Rebinds:
    """Each goes on until it may end. together: the most that were ever under way at once."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []
        self.together = 0
        self.go_on = threading.Event()

    def __call__(self, pipeline: Pipeline) -> Any:
        self.began.append(pipeline.nodes)
        self.together = max(self.together, len(self.began) - len(self.ended))
        assert self.go_on.wait(HANG_S)
        self.ended.append(pipeline.nodes)
        return test_making_ready._bound(pipeline)


def test_two_are_never_bound_at_once(world: Any) -> None:
    rebinds = _Rebinds()

    async def scenario() -> None:
        it, logs = world.process(0, rebind=rebinds), test_making_ready._logs(MORE)
        try:
            await _looking(it, logs, lambda: bool(rebinds.began))
            logs.see(replace(MORE, request_id="l2", nodes=1))
            for _ in range(_LOOKS):
                assert await it.look(*logs.read)
                await asyncio.sleep(0)
            assert rebinds.began == [3], "one goes on"
            rebinds.go_on.set()
            await world.until(lambda said: said.request_id == "l2", it, logs)
            assert it.prepared is not None
            assert it.prepared.pipeline.nodes == 1
        finally:
            rebinds.go_on.set()

    world.run(scenario)
    assert (rebinds.began, rebinds.ended, rebinds.together) == ([3, 1], [3, 1], 1)


def test_one_that_hangs_is_waited_for_no_longer_than_is_allowed(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rebinds = _Rebinds()

    async def scenario() -> None:
        it, logs = world.process(0, rebind=rebinds, binding_ms=1), test_making_ready._logs(MORE)
        try:
            await _looking(it, logs, lambda: bool(rebinds.began))
            logs.see(replace(MORE, request_id="l2", nodes=1))
            async with asyncio.timeout(HANG_S):
                while rebinds.began != [3, 1]:
                    assert await it.look(*logs.read)
                    await asyncio.sleep(0)
            assert rebinds.ended == []
        finally:
            rebinds.go_on.set()
            await it.close()

    world.run(scenario)
    assert (
        "queries for 3 nodes are still being bound, 0.001 s after nobody wanted them any more" in caplog.text
    )


class _Hangs:
    """What Spark has opened to be warm does not close."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.lets_go = asyncio.Event()

    async def __call__(self, _bound: Any, spec: Any, *_: Any) -> None:
        self.began.append(spec.nodes)
        try:
            await asyncio.Event().wait()
        finally:
            await self.lets_go.wait()


def test_what_was_opened_to_be_warm_and_does_not_close_holds_up_nobody(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        warm = _Hangs()
        it = world.process(2, warm=warm, binding_ms=1)
        logs = test_making_ready._logs(MORE, saved=world.checkpoint())
        try:
            async with asyncio.timeout(HANG_S):
                for number in range(1, 3):
                    while len(warm.began) < number:
                        assert await it.look(*logs.read)
                        await asyncio.sleep(0)
                    logs.see(replace(MORE, request_id=f"another {number}"))
                await it.close()
        finally:
            warm.lets_go.set()

    world.run(scenario)
    assert (
        "what was opened to be warm for a layout which nobody waits for any more is still being closed"
        in (caplog.text)
    )


@pytest.mark.parametrize("is_withdrawn", [False, True])
def test_it_is_closed_once_nothing_is_bound_any_more(world: Any, is_withdrawn: bool) -> None:
    """Whoever closes it binds next, in the same session of Spark."""
    rebinds = _Rebinds()

    async def scenario() -> None:
        it, logs = world.process(2, rebind=rebinds), test_making_ready._logs(MORE)
        try:
            await _looking(it, logs, lambda: bool(rebinds.began))
            if is_withdrawn:
                assert await it.look(*test_making_ready._logs().read), "it goes on"
            closing = asyncio.create_task(it.close())
            for _ in range(_LOOKS):
                await asyncio.sleep(0)
            assert not closing.done()
            rebinds.go_on.set()
            await closing
            assert rebinds.ended == [3]
            assert it.prepared is None, "nobody wants it"
        finally:
            rebinds.go_on.set()

    world.run(scenario)
