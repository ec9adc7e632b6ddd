"""The application: its operations, behind the guard, with the OpenAPI document that is made from them."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import Depends, FastAPI, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from kcontrol.adapters.http import (
    agents,
    consistent_region,
    console_pages,
    deliveries,
    inputs,
    layouts,
    pipelines,
    pushes,
    queries,
    region_rollbacks,
    regions,
    requests,
    resets,
    service,
    step_lines,
    steps,
    streams,
    submission,
)
from kcontrol.adapters.http.access import AccessToken
from kcontrol.adapters.http.guard import RequestGuard
from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.adapters.http.plane import Plane
from kcontrol.adapters.http.problems import MEDIA_TYPE, add_handlers
from kcontrol.adapters.http.profiles import profile_routes
from kcontrol.adapters.http.queries import Ask, add_queries
from kcontrol.adapters.http.strict import only_what_is_asked_for
from kcontrol.adapters.profiling.profiler import Profiler
from kcontrol.sessions.health import Health
from kcontrol.version import __version__

OPENAPI_PATH = "/v1/openapi.json"

_ABOUT = """Looks at kcontrol's pipelines and asks things of them.

Every write is a record in Kafka's control topic and answers 202 with its offset; what becomes of it is at the path in
`Location`. Every read comes from a projection of the topics and says as of which offsets it is. So any server can answer, and
none holds anything of its own. Every error is a problem (RFC 9457) that says what went wrong, where, and what to do.
"""


class _Api(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """FastAPI describes the bodies of all responses as plain JSON; errors have a media type of their
        own."""
        if self.openapi_schema is None:
            document = super().openapi()
            for operation in (each for path in document["paths"].values() for each in path.values()):
                for response in operation["responses"].values():
                    described = response.get("content", {})
                    if MEDIA_TYPE in described:
                        response["content"] = {MEDIA_TYPE: next(each for each in described.values() if each)}
        return self.openapi_schema or {}


def make_api(plane: Plane) -> FastAPI:
    """The operations alone."""
    api = _Api(
        title="kcontrol",
        version=__version__,
        description=_ABOUT,
        openapi_url=OPENAPI_PATH,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    api.state.plane = plane
    # A step's number comes after `brief` in its place of the path.
    for part in (
        pipelines,
        submission,
        inputs,
        deliveries,
        step_lines,
        steps,
        streams,
        pushes,
        requests,
        resets,
        layouts,
        queries,
        agents,
        regions,
        region_rollbacks,
        consistent_region,
        service,
        console_pages,
    ):
        api.include_router(part.router, dependencies=[Depends(only_what_is_asked_for)])
    add_handlers(api)
    return api


def make_app(plane: Plane, limits: HttpLimits, token: AccessToken | None) -> ASGIApp:
    """What the server runs. token: None trusts whoever can reach it."""
    return guarded(make_api(plane), plane, limits, token)


def guarded(api: ASGIApp, plane: Plane, limits: HttpLimits, token: AccessToken | None) -> ASGIApp:
    """The plane's operations behind their guard."""
    oversized, crowded = partial(pushes.note_oversized, plane), partial(streams.note_crowded, plane)
    return RequestGuard(api, limits, token, oversized, crowded)


def make_metrics_app(
    registry: CollectorRegistry,
    limits: HttpLimits,
    token: AccessToken | None,
    profiler: Profiler | None = None,
    health: Health | None = None,
) -> ASGIApp:
    """What a process serves that has nothing but metrics and, with `profiler`, profiles.
    health: judged by /health/live."""
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)

    async def metrics() -> PlainTextResponse:
        return service.exposition(registry)

    api.add_api_route(service.METRICS_PATH, metrics, methods=["GET"], response_class=PlainTextResponse)

    async def live(response: Response) -> service.NodeLive:
        wrong, doing = (health.wrong(), health.doing()) if health is not None else ("", "")
        response.status_code = service.NOT_READY if wrong else 200
        return service.NodeLive(status=f"hung: {wrong}" if wrong else "live", doing=doing)

    api.add_api_route("/health/live", live, methods=["GET"])
    if profiler is not None:
        api.include_router(profile_routes(profiler))
    add_handlers(api)
    return RequestGuard(api, limits, token)


def make_query_app(ask: Ask, limits: HttpLimits, token: AccessToken | None) -> ASGIApp:
    """What a process serves that answers questions and nothing else."""
    api = _Api(
        title="kcontrol",
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_queries(api, ask)

    async def live() -> service.Live:
        return service.Live(status="live")

    api.add_api_route("/health/live", live, methods=["GET"])
    add_handlers(api)
    return RequestGuard(api, limits, token)
