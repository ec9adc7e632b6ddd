"""`/v1/pipelines/P/layout`: who owns the pipeline's state, and changes of that while it runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field, model_validator

from kcontrol.adapters.http.plane import AsOf, ThePipeline, ThePlane, as_of
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.requests import ACCEPTED, Accepted, ask
from kcontrol.requests.layout_requests import layout_request, withdrawal_request
from kcontrol.requests.resizing import ForAgents, refuse_beside_agents
from kcontrol.views.layout_facts import LayoutFacts, layout_of

router = APIRouter(prefix="/v1/pipelines/{pipeline}/layout", tags=["layout"])

MAX_NODES = 10_000
DEFAULT_TIMEOUT_MS = 15 * 60_000
MAX_TIMEOUT_MS = 7 * 24 * 3_600_000

NodeNumber = Annotated[int, Field(ge=0, lt=MAX_NODES)]


class LayoutOrder(BaseModel):
    """Another layout: one of `nodes`, `without` and `replace`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    nodes: int | None = Field(default=None, ge=1, le=MAX_NODES, description="How many nodes there are to be.")
    without: NodeNumber | None = Field(
        default=None,
        description="The node that is left out. Unless it is the last one, its number goes to a process that waits for that "
        "(`kcontrol node --instead`) on the host of the last one.",
    )
    replace: list[NodeNumber] = Field(
        default=[],
        max_length=MAX_NODES,
        description="Nodes that other processes (`kcontrol node --instead`) are to be.",
    )
    timeout_ms: int = Field(
        default=DEFAULT_TIMEOUT_MS,
        ge=1,
        le=MAX_TIMEOUT_MS,
        description="For all processes that are to be nodes to be ready; then it is given up, and nothing was changed.",
    )

    @model_validator(mode="after")
    def _one_of_them(self) -> LayoutOrder:
        if sum((self.nodes is not None, self.without is not None, bool(self.replace))) != 1:
            raise ValueError("say one of nodes, without and replace")
        return self


class LayoutAnswer(BaseModel):
    """The layout, and how far a change of it is."""

    as_of: AsOf
    layout: LayoutFacts


@router.get("", responses=responses(404, 409, 500))
async def get_layout(plane: ThePlane, pipeline: ThePipeline) -> LayoutAnswer:
    """How many shards of state each node owns; and of the newest change: what it waits for, shards, bytes, seconds left."""
    return LayoutAnswer(as_of=as_of(plane, pipeline), layout=layout_of(pipeline))


@router.post("", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def change_layout(
    plane: ThePlane, pipeline: ThePipeline, order: LayoutOrder, response: Response
) -> Accepted:
    """Go on with other nodes while steps are made, once all processes that are to be nodes have copied what they lack.

    New ones are started by you (`kcontrol node --new` or `--instead`). It is made as a whole or not at all, and takes the
    place of what was asked for before and is not made yet. Refused of a pipeline that does not run, and of one that agents
    run: `kcontrol layout` tells them.
    """
    refuse_beside_agents(plane.agents().replica.jobs.get(pipeline.pipeline), ForAgents.NODES)
    requests = layout_request(
        *(pipeline, order.nodes, order.without, tuple(order.replace)),
        timeout_ms=order.timeout_ms,
        now_ms=plane.clock.now_ms(),
    )
    return await ask(plane, pipeline, response, requests)


@router.post("/withdraw", status_code=ACCEPTED, responses=responses(404, 409, 500))
async def withdraw_layout(plane: ThePlane, pipeline: ThePipeline, response: Response) -> Accepted:
    """Give up what was asked for before, if it is not made yet. Refused while agents ask for it: `kcontrol layout` tells
    them."""
    refuse_beside_agents(plane.agents().replica.jobs.get(pipeline.pipeline), ForAgents.WITHDRAWAL)
    return await ask(plane, pipeline, response, withdrawal_request(pipeline))
