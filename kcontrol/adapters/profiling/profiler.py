"""The profiles of one node, of its Python driver and its JVM: one at a time, each for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum

from kcontrol.adapters.profiling import python
from kcontrol.adapters.profiling.jvm import Jvm
from kcontrol.errors import RetriableError

HISTOGRAM_LINES = 200


class What(StrEnum):
    """Of a process."""

    CPU = "cpu"
    HEAP = "heap"


class Part(StrEnum):
    """Of a node: its Python driver, or Spark's JVM, which in a local master runs the tasks too."""

    PYTHON = "python"
    JVM = "jvm"


class Profiler:
    """What a node is profiled by. `jvm` is set once Spark has started."""

    def __init__(self) -> None:
        self.jvm: Jvm | None = None
        self._busy = False

    async def cpu(self, part: Part, seconds: float) -> bytes | str:
        """A flight recording of the JVM, or folded stacks of Python; looks for `seconds`.

        Raises RetriableError while another profile is taken, or Spark has not started.
        """
        async with self._alone():
            if part is Part.JVM:
                return await asyncio.to_thread(self._jvm().cpu_profile, seconds)
            return python.folded(await asyncio.to_thread(python.cpu_profile, seconds))

    async def heap(self, part: Part) -> str:
        """A histogram of classes. Raises as `cpu`."""
        async with self._alone():
            if part is Part.JVM:
                return await asyncio.to_thread(self._jvm().heap_profile)
            return python.histogram(await asyncio.to_thread(python.heap_profile), HISTOGRAM_LINES)

    def _jvm(self) -> Jvm:
        if self.jvm is None:
            raise RetriableError("Spark has not started yet")
        return self.jvm

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        if self._busy:
            raise RetriableError("another profile of this node is being taken")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
