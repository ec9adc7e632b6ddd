"""Runs what waits on a clock that goes on only when nothing else can happen, so that no test's outcome depends on how long the
machine takes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from tests.simulation.sessions.loop import SeededLoop

_Result = TypeVar("_Result")


def in_virtual_time(main: Callable[[], Coroutine[Any, Any, _Result]], within_s: float = 3_600.0) -> _Result:
    """What `main` returns or raises. All that it has begun is ended then."""
    loop = SeededLoop(Random(1), 0.0)
    running = loop.create_task(main())
    try:
        loop.run_while(lambda: not running.done(), within_s)
        assert running.done(), f"it has not ended within {within_s:g} s"
        result: _Result = running.result()
        return result
    finally:
        loop.end()
