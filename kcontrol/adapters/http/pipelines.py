"""`/v1/pipelines`: what there is, how it is, and what is wrong with it."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query
from fastapi.responses import RedirectResponse
from pydantic import BaseModel, Field

from kcontrol.adapters.http.limits import DEFAULT_PROFILE_S, MAX_PAGE_SIZE, PAGE_SIZE
from kcontrol.adapters.http.plane import AsOf, ThePipeline, ThePlane, as_of
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.profiles import ProfileSeconds
from kcontrol.adapters.http.record_models import model_of
from kcontrol.adapters.profiling.profiler import Part, What
from kcontrol.core.model import Checkpoint, PipelineSpec
from kcontrol.errors import DamagedRecordError, NotFoundError
from kcontrol.requests.record import NotNowError
from kcontrol.views.cluster_projection import NotReadyError
from kcontrol.views.node_facts import NodeFacts, node_of, nodes_of
from kcontrol.views.pipeline_facts import PipelineStatus, Trouble, status_of, troubles_of, with_safety
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.wire.json import to_json

router = APIRouter(prefix="/v1/pipelines", tags=["pipelines"])

TO_THE_NODE = 307

NodeNumber = Annotated[int, Path(ge=0, le=10_000, description="Number of a node; the first is 0.")]


class PipelineLine(BaseModel):
    """One of a list."""

    pipeline: str
    phase: str
    step: int
    step_ms: int | None = Field(
        description="The time of the last committed step, milliseconds since 1970; null if there is none."
    )
    reason: str
    waiting: int = Field(
        description="Records beyond the last committed step, over all inputs, at most: offsets, less those "
        "known to hold none."
    )
    waiting_ms: int | None = Field(
        description="For how long the oldest of it has been known to wait; 0 if nothing waits, null if "
        "that is not known."
    )
    as_of: AsOf


class PipelineList(BaseModel):
    """Pipelines by name. Those of which the log can't be read, or has not been yet, are
    under `broken`, with the reason."""

    pipelines: list[PipelineLine]
    broken: dict[str, str]
    next_after: str | None = Field(description="Give it as `after` for the next page; null on the last one.")


class PipelineAnswer(BaseModel):
    """How a pipeline is."""

    as_of: AsOf
    status: PipelineStatus


class SpecAnswer(BaseModel):
    """What runs under a pipeline's name."""

    as_of: AsOf
    spec: model_of(PipelineSpec)  # type: ignore[valid-type]


class NodesAnswer(BaseModel):
    """The nodes of a pipeline, by number."""

    as_of: AsOf
    nodes: list[NodeFacts]


class NodeAnswer(BaseModel):
    """One node."""

    as_of: AsOf
    node: NodeFacts


class CheckpointsAnswer(BaseModel):
    """The checkpoints that were not dropped, oldest first."""

    as_of: AsOf
    checkpoints: list[model_of(Checkpoint)]  # type: ignore[valid-type]
    failure: str = Field(description="Why the last try was given up; '' if it succeeded.")


class ErrorsAnswer(BaseModel):
    """What is wrong now; the root of a halt first."""

    as_of: AsOf
    errors: list[Trouble]


@router.get("", responses=responses())
async def list_pipelines(
    plane: ThePlane,
    after: Annotated[str, Query(max_length=63, description="Begin after this name.")] = "",
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE_SIZE)] = PAGE_SIZE,
) -> PipelineList:
    """All submitted pipelines, by name."""
    projections = plane.projections
    now_ms, found, broken = plane.clock.now_ms(), [], {}
    names = [name for name in projections.names() if name > after]
    for name in names[:limit]:
        try:
            projection = projections.get(name)
            status = status_of(projection, now_ms)
        except (NotReadyError, DamagedRecordError) as error:
            broken[name] = str(error)
        else:
            found.append(_line(status, as_of(plane, projection)))
    next_after = names[limit - 1] if len(names) > limit else None
    return PipelineList(pipelines=found, broken=broken, next_after=next_after)


@router.get("/{pipeline}", responses=responses(404, 409, 500))
async def get_pipeline(plane: ThePlane, pipeline: ThePipeline) -> PipelineAnswer:
    """Whether it runs, how far it is, what waits, and why it halted if it has: what `kcontrol status`
    prints."""
    status = with_safety(status_of(pipeline, plane.clock.now_ms()), plane.safety(pipeline.spec()))
    return PipelineAnswer(as_of=as_of(plane, pipeline), status=status)


@router.get("/{pipeline}/spec", response_model=SpecAnswer, responses=responses(404, 409, 500))
async def get_spec(plane: ThePlane, pipeline: ThePipeline) -> Any:
    """The definition in force, as it was resolved when it was submitted."""
    return {"as_of": as_of(plane, pipeline), "spec": to_json(pipeline.spec())}


@router.get("/{pipeline}/nodes", responses=responses(404, 409, 500))
async def get_nodes(plane: ThePlane, pipeline: ThePipeline) -> NodesAnswer:
    """All nodes that the spec has."""
    return NodesAnswer(as_of=as_of(plane, pipeline), nodes=nodes_of(pipeline, plane.clock.now_ms()))


@router.get("/{pipeline}/nodes/{node}", responses=responses(404, 409, 500))
async def get_node(plane: ThePlane, pipeline: ThePipeline, node: NodeNumber) -> NodeAnswer:
    """One node."""
    found = node_of(pipeline, _node(pipeline, node), plane.clock.now_ms())
    return NodeAnswer(as_of=as_of(plane, pipeline), node=found)


@router.get(
    "/{pipeline}/nodes/{node}/profile/{what}",
    status_code=TO_THE_NODE,
    response_class=RedirectResponse,
    responses={
        TO_THE_NODE: {"description": "At the node itself.", "content": {}},
        **responses(404, 409, 500),
    },
)
async def get_profile(
    pipeline: ThePipeline,
    node: NodeNumber,
    what: What,
    part: Part = Part.PYTHON,
    seconds: ProfileSeconds = DEFAULT_PROFILE_S,
) -> RedirectResponse:
    """Where a node's CPU time goes, or what its heap holds: redirects to the node's own port
    (`--metrics-port`), where the profile is taken. Follow it with the node's token. `seconds` is for CPU time
    only."""
    found = _node(pipeline, node)
    listens = node_of(pipeline, found, 0).listens
    if not listens:
        raise NotNowError(
            f"pipeline {pipeline.pipeline!r}, node {node}: its process does not listen; start it with "
            f"kcontrol node FILE --node {node} --metrics-port PORT"
        )
    query = {"part": part.value, **({"seconds": f"{seconds:g}"} if what is What.CPU else {})}
    return RedirectResponse(f"{listens}/profile/{what.value}?{urlencode(query)}", TO_THE_NODE)


@router.get("/{pipeline}/checkpoints", response_model=CheckpointsAnswer, responses=responses(404, 409, 500))
async def get_checkpoints(plane: ThePlane, pipeline: ThePipeline) -> Any:
    """The checkpoints in the log."""
    said = pipeline.view.status()
    return {
        "as_of": as_of(plane, pipeline),
        "checkpoints": [to_json(one) for one in pipeline.committed.checkpoints],
        "failure": said.checkpoint_failure if said else "",
    }


@router.get("/{pipeline}/errors", responses=responses(404, 409, 500))
async def get_errors(plane: ThePlane, pipeline: ThePipeline) -> ErrorsAnswer:
    """What is wrong now, with its root cause."""
    return ErrorsAnswer(as_of=as_of(plane, pipeline), errors=troubles_of(pipeline, plane.clock.now_ms()))


def _line(status: PipelineStatus, asked_as_of: AsOf) -> PipelineLine:
    return PipelineLine(
        pipeline=status.pipeline,
        phase=status.phase,
        step=status.step,
        step_ms=status.step_ms,
        reason=status.reason,
        waiting=sum(each.waiting for each in status.inputs),
        waiting_ms=_longest(status),
        as_of=asked_as_of,
    )


def _longest(status: PipelineStatus) -> int | None:
    known = [each.waiting_ms for each in status.inputs if each.waiting_ms is not None]
    return max(known, default=None if any(each.waiting for each in status.inputs) else 0)


def _node(pipeline: PipelineProjection, node: int) -> int:
    """The same number. Raises NotFoundError if there is no such node."""
    nodes = pipeline.spec().nodes
    if node >= nodes:
        raise NotFoundError(f"pipeline {pipeline.pipeline!r} has the nodes 0 to {nodes - 1}, no node {node}")
    return node
