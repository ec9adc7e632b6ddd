"""`/profile` of a node: where its time and memory go, on demand, one profile at a time, each for a bounded
time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse

from kcontrol.adapters.http.limits import DEFAULT_PROFILE_S, MAX_PROFILE_S
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.profiling import python
from kcontrol.adapters.profiling.jvm import Jvm
from kcontrol.errors import RetriableError

RECORDING_TYPE = "application/octet-stream"
HISTOGRAM_LINES = 200

ProfileSeconds = Annotated[float, Query(gt=0, le=MAX_PROFILE_S, description="For how long to look.")]


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

    async def cpu(self, part: Part, seconds: float) -> Response:
        """Raises RetriableError while another profile is taken, or Spark has not started."""
        async with self._alone():
            if part is Part.JVM:
                jvm = self._jvm()
                recording = await asyncio.to_thread(jvm.cpu_profile, seconds)
                named = {"Content-Disposition": 'attachment; filename="node.jfr"'}
                return Response(recording, media_type=RECORDING_TYPE, headers=named)
            found = await asyncio.to_thread(python.cpu_profile, seconds)
            return PlainTextResponse(python.folded(found))

    async def heap(self, part: Part) -> Response:
        """As `cpu`."""
        async with self._alone():
            if part is Part.JVM:
                return PlainTextResponse(await asyncio.to_thread(self._jvm().heap_profile))
            return PlainTextResponse(
                python.histogram(await asyncio.to_thread(python.heap_profile), HISTOGRAM_LINES)
            )

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


def profile_routes(profiler: Profiler) -> APIRouter:
    """`/profile/cpu` and `/profile/heap` of one node. docs/rest.md describes them."""
    router = APIRouter(prefix="/profile")

    @router.get("/cpu", responses=responses())
    async def cpu(part: Part = Part.PYTHON, seconds: ProfileSeconds = DEFAULT_PROFILE_S) -> Response:
        return await profiler.cpu(part, seconds)

    @router.get("/heap", responses=responses())
    async def heap(part: Part = Part.PYTHON) -> Response:
        return await profiler.heap(part)

    return router
