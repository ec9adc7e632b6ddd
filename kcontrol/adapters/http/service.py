"""The server about itself: whether it lives, whether it is ready, what it is
connected to, and its metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.responses import PlainTextResponse
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel, Field

from kcontrol.adapters.http.limits import MAX_PAGE_SIZE, MAX_WAIT_S
from kcontrol.adapters.http.plane import Plane, ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.version import __version__

router = APIRouter()

NOT_READY = 503
METRICS_PATH = "/metrics"


class Live(BaseModel):
    """The process answers."""

    status: str


class NodeLive(Live):
    """A node's process answers."""

    doing: str = Field(
        description="What its engine or its storage is asked for, and for how long; '' if nothing."
    )


class Waiting(BaseModel):
    """Something that the process waits for."""

    phase: str
    since_ms: int = Field(description="Milliseconds since 1970.")
    error: str = Field(description="The last error that it met; '' if there was none.")


class Ready(BaseModel):
    """Whether the process can answer for all pipelines."""

    status: str = Field(description="ready, or blocked.")
    blocked: list[Waiting] = Field(description="The phases that it waits for; empty when it is ready.")
    broken: dict[str, str] = Field(
        description="Pipelines whose logs can't be read, and why. They don't make it unready."
    )


class Metadata(BaseModel):
    """What the server is and what it is connected to. No secrets."""

    version: str
    bootstrap_servers: str
    prefix: str
    control_topic: str
    coordinator_group: str
    pipelines: int
    max_page_size: int
    max_wait_s: float


@router.get("/health/live", tags=["health"])
async def live() -> Live:
    """Answers whenever the process does."""
    return Live(status="live")


@router.get(
    "/health/ready", tags=["health"], responses={NOT_READY: {"model": Ready, "description": "Not ready."}}
)
async def ready(plane: ThePlane, response: Response) -> Ready:
    """200 when all logs have been read and Kafka can be reached; else 503, naming the phase that is
    blocked."""
    blocked = _blocked(plane)
    response.status_code = NOT_READY if blocked else 200
    return Ready(status="blocked" if blocked else "ready", blocked=blocked, broken=plane.projections.broken())


@router.get("/v1/metadata", tags=["service"], responses=responses())
async def metadata(plane: ThePlane) -> Metadata:
    """Version, cluster, names and limits."""
    names = plane.settings.names()
    return Metadata(
        version=__version__,
        bootstrap_servers=plane.settings.bootstrap_servers,
        prefix=plane.settings.prefix,
        control_topic=names.control_topic(),
        coordinator_group=names.coordinator_group(),
        pipelines=len(plane.projections.names()),
        max_page_size=MAX_PAGE_SIZE,
        max_wait_s=MAX_WAIT_S,
    )


@router.get(
    METRICS_PATH,
    tags=["service"],
    response_class=PlainTextResponse,
    responses={200: {"description": "Metrics."}, **responses()},
)
async def metrics(plane: ThePlane) -> PlainTextResponse:
    """For Prometheus; docs/metrics.md lists them."""
    return exposition(plane.registry)


def exposition(registry: CollectorRegistry) -> PlainTextResponse:
    """All metrics of a process as text."""
    return PlainTextResponse(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def _blocked(plane: Plane) -> list[Waiting]:
    found = [*plane.projections.blocked(), *(each for check in plane.checks for each in check())]
    return [Waiting(phase=each.phase, since_ms=each.since_ms, error=each.error) for each in found]
