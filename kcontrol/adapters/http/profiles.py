"""`/profile` of a node: where its time and memory go, on demand, one profile at a time, each for a bounded
time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import PlainTextResponse

from kcontrol.adapters.http.limits import DEFAULT_PROFILE_S, MAX_PROFILE_S
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.profiling.profiler import Part, Profiler

RECORDING_TYPE = "application/octet-stream"

ProfileSeconds = Annotated[float, Query(gt=0, le=MAX_PROFILE_S, description="For how long to look.")]


def profile_routes(profiler: Profiler) -> APIRouter:
    """`/profile/cpu` and `/profile/heap` of one node. docs/rest.md describes them."""
    router = APIRouter(prefix="/profile")

    @router.get("/cpu", responses=responses())
    async def cpu(part: Part = Part.PYTHON, seconds: ProfileSeconds = DEFAULT_PROFILE_S) -> Response:
        found = await profiler.cpu(part, seconds)
        if isinstance(found, str):
            return PlainTextResponse(found)
        named = {"Content-Disposition": 'attachment; filename="node.jfr"'}
        return Response(found, media_type=RECORDING_TYPE, headers=named)

    @router.get("/heap", responses=responses())
    async def heap(part: Part = Part.PYTHON) -> Response:
        return PlainTextResponse(await profiler.heap(part))

    return router
