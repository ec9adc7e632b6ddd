"""`POST /v1/pipelines/{pipeline}/spec`: submit a definition that is ready-made."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from kcontrol.adapters.checkpoints.locations import check_location
from kcontrol.adapters.http.limits import WRITE_SEEN_S
from kcontrol.adapters.http.plane import PipelineName, ThePlane
from kcontrol.adapters.http.problems import responses
from kcontrol.adapters.http.record_models import given_model_of
from kcontrol.core.model import IN_WORK_DIR, PipelineSpec
from kcontrol.definition.spec_rules import check_spec, succeed_unchanged
from kcontrol.definition.succession import refuse_shared_outputs
from kcontrol.errors import ConfigurationError
from kcontrol.wire.json import from_json

router = APIRouter(prefix="/v1/pipelines", tags=["pipelines"])


GivenSpec = given_model_of(PipelineSpec)


class Submitted(BaseModel):
    """The definition is in the log."""

    pipeline: str
    fingerprint: str
    control_partition: int
    control_offset: int = Field(
        description="Of the definition's record; reads take it as `min_control_offset`."
    )


@router.post("/{pipeline}/spec", responses=responses(400, 404, 409, 500))
async def submit(plane: ThePlane, pipeline: PipelineName, spec: GivenSpec) -> Submitted:  # type: ignore[valid-type]
    """Submit a definition as `GET .../spec` answers it and `kcontrol submit FILE --print` prints it: of a new
    pipeline, whose nodes may start later, or with other settings (policy, limits, checkpoint) of one that is
    there.

    What only Spark can say of the queries is taken as given, until a node starts: it works it out for itself,
    and does not start if its fingerprint is another.
    """
    given: Any = spec
    wanted: PipelineSpec = from_json(PipelineSpec, given.model_dump(by_alias=True))
    if wanted.pipeline != pipeline:
        raise ConfigurationError(
            f"the definition is of pipeline {wanted.pipeline!r}, the request about {pipeline!r}"
        )
    check_spec(wanted)
    if wanted.checkpoint.location not in ("", IN_WORK_DIR):
        check_location(wanted.checkpoint.location)
    known = plane.projections.specs()
    made = succeed_unchanged(wanted, known.get(pipeline))
    refuse_shared_outputs(made, known.values())
    await plane.projections.prepare(made)
    (offset,) = await plane.projections.control_log(pipeline).append([made])
    await plane.projections.shown(pipeline, offset, WRITE_SEEN_S)
    return Submitted(
        pipeline=pipeline,
        fingerprint=made.fingerprint,
        control_partition=plane.projections.partition_number(pipeline),
        control_offset=offset,
    )
