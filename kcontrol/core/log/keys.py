"""The key of every record, in one place, because compaction keeps the newest record of a key and nothing
else.

A key holds the epoch or incarnation of its author, so that what a zombie writes late can never displace what
its successor wrote. Pipeline names hold no slash, so no key of one pipeline is a key of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcontrol.core.model import (
    AgentPlacement,
    Assignment,
    Checkpoint,
    CheckpointPart,
    CheckpointRequest,
    Claim,
    Command,
    ControlRecord,
    Desired,
    Hold,
    InputDesired,
    InputSchema,
    LayoutReady,
    LayoutRequest,
    NodeJoin,
    NodeState,
    OutputSchema,
    PipelineSpec,
    Received,
    Replaying,
    Resume,
    SkipRequest,
    Status,
    StepBoundary,
    StepRecord,
    Written,
)

BARRIER_KEY = "barrier"
"""In the log of steps, of what a coordinator writes there to learn where it ends. It is never committed."""


def spec_key(pipeline: str) -> str:
    """Of the pipeline's definition. A tombstone under it deletes the pipeline."""
    return f"{pipeline}/spec"


def is_spec_key(key: str) -> bool:
    """Whether it is that of some pipeline's definition."""
    name, _, rest = key.partition("/")
    return bool(name) and rest == "spec"


def join_key(pipeline: str, node: int, uuid: str) -> str:
    """Of the record by which a new incarnation of a node begins."""
    return f"{pipeline}/node/{node}/join/{uuid}"


def state_key(pipeline: str, node: int, incarnation: int) -> str:
    """Of one incarnation's newest `NodeState`."""
    return f"{pipeline}/node/{node}/{incarnation}/state"


def received_key(pipeline: str, node: int, incarnation: int, input_name: str) -> str:
    """Of one incarnation's newest `Received` of one input."""
    return f"{pipeline}/node/{node}/{incarnation}/received/{input_name}"


def replay_key(pipeline: str, node: int, incarnation: int) -> str:
    """Of one incarnation's newest `Replaying`."""
    return f"{pipeline}/node/{node}/{incarnation}/replay"


def written_key(pipeline: str, node: int, incarnation: int) -> str:
    """Of one incarnation's newest `Written` of the last stage of a step."""
    return f"{pipeline}/node/{node}/{incarnation}/written"


def early_key(pipeline: str, node: int, incarnation: int, stage: int) -> str:
    """Of one incarnation's newest `Written` of a stage that is not the last: apart from the last one's, so that compaction
    leaves to a slow node what it still has to read."""
    return f"{pipeline}/node/{node}/{incarnation}/written/{stage}"


def part_key(pipeline: str, node: int, incarnation: int) -> str:
    """Of one incarnation's newest `CheckpointPart`."""
    return f"{pipeline}/node/{node}/{incarnation}/checkpoint"


def input_key(pipeline: str, input_name: str) -> str:
    """Of what the user wants of one input."""
    return f"{pipeline}/input/{input_name}/desired"


def skip_key(pipeline: str, input_name: str, partition: int) -> str:
    """Of the newest request to pass over offsets of one partition."""
    return f"{pipeline}/skip/{input_name}/{partition}"


def hold_key(pipeline: str) -> str:
    """Of how far its steps may read, for now."""
    return f"{pipeline}/hold"


def input_schema_key(pipeline: str, schema_id: int, node: int) -> str:
    """Of a schema that values of inputs were written by, as one node got to know it."""
    return f"{pipeline}/schema/in/{schema_id}/{node}"


def output_schema_key(pipeline: str, output: str, schema_id: int) -> str:
    """Of a schema that values of one output are written by."""
    return f"{pipeline}/schema/out/{output}/{schema_id}"


def layout_key(pipeline: str) -> str:
    """Of the newest request to change the layout of a pipeline that runs."""
    return f"{pipeline}/layout"


def rebalance_key(pipeline: str) -> str:
    """Of the newest request by which a coordinator has state divided anew."""
    return f"{pipeline}/layout/rebalance"


def wish_key(pipeline: str, wish: AgentPlacement) -> str:
    """Of the newest request to change the layout by agents, for one entry of their log."""
    return f"{pipeline}/layout/wish/{wish.founded_ms}/{wish.generation}"


def end_key(pipeline: str, wish: AgentPlacement) -> str:
    """Of what agents have said of the end of a job, for one entry of their log."""
    return f"{pipeline}/desired/end/{wish.founded_ms}/{wish.generation}"


def ready_key(pipeline: str, node: int) -> str:
    """Of how far whoever is to be a node is with that."""
    return f"{pipeline}/node/{node}/layout"


def claim_key(pipeline: str, uuid: str) -> str:
    """Of one coordinator's claim."""
    return f"{pipeline}/claim/{uuid}"


def command_key(pipeline: str, claim_epoch: int, node: int) -> str:
    """Of what one coordinator last asked of a node."""
    return f"{pipeline}/command/{claim_epoch}/{node}"


def barrier_key(pipeline: str, uuid: str) -> str:
    """Of a tombstone that removes nothing: who has read up to its own has missed nothing that was there
    before."""
    return f"{pipeline}/barrier/{uuid}"


def step_key(step: int) -> str:
    """Of a boundary, in the steps topic of its pipeline."""
    return f"step/{step}"


def checkpoint_key(step: int) -> str:
    """Of a checkpoint, in the steps topic of its pipeline."""
    return f"checkpoint/{step}"


def assignment_key(number: int) -> str:
    """Of a change of the layout, in the steps topic of its pipeline."""
    return f"assignment/{number}"


def accepted_key(offset: int) -> str:
    """Of the tombstone in the steps topic by which a person accepts what is recorded twice up to this
    offset."""
    return f"accepted/{offset}"


def accepted_offset(key: str) -> int | None:
    """The offset in such a key; None for any other."""
    kind, _, number = key.partition("/")
    return int(number) if kind == "accepted" and number.isdecimal() else None


def numbered(key: str) -> tuple[str, int]:
    """What a key of the steps topic is of, 'step' or 'checkpoint', and its step; ('', 0) for a key of
    neither."""
    kind, _, number = key.partition("/")
    return (kind, int(number)) if kind in ("step", "checkpoint") and number.isdecimal() else ("", 0)


def _of_layout_request(request: LayoutRequest) -> str:
    if request.wish is not None:
        return wish_key(request.pipeline, request.wish)
    return rebalance_key(request.pipeline) if request.why else layout_key(request.pipeline)


_KEYS: dict[type, Callable[[Any], str]] = {
    PipelineSpec: lambda r: spec_key(r.pipeline),
    Desired: lambda r: f"{r.pipeline}/desired" if r.wish is None else end_key(r.pipeline, r.wish),
    Resume: lambda r: f"{r.pipeline}/resume",
    CheckpointRequest: lambda r: f"{r.pipeline}/checkpoint/request",
    InputDesired: lambda r: input_key(r.pipeline, r.input),
    SkipRequest: lambda r: skip_key(r.pipeline, r.input, r.partition),
    Hold: lambda r: hold_key(r.pipeline),
    LayoutRequest: _of_layout_request,
    LayoutReady: lambda r: ready_key(r.pipeline, r.node),
    NodeJoin: lambda r: join_key(r.pipeline, r.node, r.uuid),
    NodeState: lambda r: state_key(r.pipeline, r.node, r.incarnation),
    Received: lambda r: received_key(r.pipeline, r.node, r.incarnation, r.input),
    Replaying: lambda r: replay_key(r.pipeline, r.node, r.incarnation),
    Written: lambda r: (
        early_key(r.pipeline, r.node, r.incarnation, r.stage)
        if r.early
        else written_key(r.pipeline, r.node, r.incarnation)
    ),
    CheckpointPart: lambda r: part_key(r.pipeline, r.node, r.incarnation),
    Claim: lambda r: claim_key(r.pipeline, r.uuid),
    Command: lambda r: command_key(r.pipeline, r.claim_epoch, r.node),
    Status: lambda r: f"{r.pipeline}/status",
    InputSchema: lambda r: input_schema_key(r.pipeline, r.schema_id, r.node),
    OutputSchema: lambda r: output_schema_key(r.pipeline, r.output, r.schema_id),
    StepBoundary: lambda r: step_key(r.step),
    Checkpoint: lambda r: checkpoint_key(r.step),
    Assignment: lambda r: assignment_key(r.number),
}


def key_of(record: ControlRecord | StepRecord) -> str:
    """The key under which a record is written."""
    return _KEYS[type(record)](record)
