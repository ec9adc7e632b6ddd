"""A pipeline that a region has held is let go as soon as that is asked for, and not a second after it was held."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from kcontrol.apps.held_pipeline import HeldPipeline
from kcontrol.core.model import Hold


class _Logs:
    """What is written is read at once; nobody answers."""

    def __init__(self) -> None:
        self.written: list[Hold] = []
        self.own_control = SimpleNamespace(append=self._append)
        self.view = SimpleNamespace(hold=self._hold, status=lambda: None)

    async def _append(self, records: list[Hold]) -> None:
        self.written += records

    def _hold(self) -> tuple[int, Hold]:
        return len(self.written), self.written[0]


def _held(logs: Any) -> HeldPipeline:
    spec: Any = SimpleNamespace(pipeline="p")
    return HeldPipeline(spec, logs, ends=None, holder="region r")  # type: ignore[arg-type]


def test_it_is_released_at_once_and_not_asked_again_at_once() -> None:
    async def run() -> list[bool]:
        logs = _Logs()
        held = _held(logs)
        await held.hold(())
        assert not await held.release_any()
        assert not await held.release_any()
        return [each.released for each in logs.written]

    assert asyncio.run(run()) == [False, True]
