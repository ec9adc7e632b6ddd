"""`/v1/pipelines/{pipeline}/deliveries`: how far outputs are in targets outside of Kafka, and who brings them there."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from pydantic.config import JsonDict

from kcontrol.adapters.http.plane import AsOf, ThePipeline, ThePlane, as_of
from kcontrol.adapters.http.problems import responses
from kcontrol.views.deliveries import DeliveryFacts, delivery_facts

router = APIRouter(prefix="/v1/pipelines/{pipeline}/deliveries", tags=["deliveries"])

_EXAMPLE: JsonDict = {
    "as_of": {"control_partition": 3, "control_offset": 118, "steps_offset": 840},
    "step": 412,
    "age_ms": 1_840,
    "unknown": "",
    "deliveries": [
        {
            **{
                "output": "totals",
                "target": "totals",
                "kind": "postgresql",
                "address": "postgresql://db:5432/shop",
            },
            **{"guarantee": "exactly_once", "state": "halted", "since_ms": 1_790_000_000_000},
            "reason": "table 'totals' is another one than before: --adopt if it holds the steps, --resync if it is empty",
            **{"step": 380, "behind": 32, "lag_s": 61.5, "by": None, "standing_by": []},
            **{"at_ms": 1_790_000_000_210, "silent_ms": 61_000, "silent": False},
        }
    ],
}


class DeliveriesAnswer(BaseModel):
    """The deliveries of a pipeline, by output and target."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    as_of: AsOf
    step: int = Field(description="The last committed step, as of which `behind` counts.")
    age_ms: int | None = Field(
        description="How old this is: the time since Kafka answered last what deliveries tell; null if it has not answered "
        "yet, and then no delivery is known."
    )
    unknown: str = Field(description="Why no more is known, or nothing newer; '' if all is.")
    deliveries: list[DeliveryFacts]


@router.get("", responses=responses(404, 409, 500))
async def get_deliveries(plane: ThePlane, pipeline: ThePipeline) -> DeliveriesAnswer:
    """How each delivery (`kcontrol deliver`) is, as its processes tell it: what `kcontrol status` prints. Kafka is asked every
    5 s at most; an older answer says how old it is, and `unknown` why. Kafka does not name deliveries whose groups
    (`PREFIX.PIPELINE.deliver.*`) this server may not describe."""
    seen = await plane.deliveries(pipeline.pipeline)
    step = pipeline.committed.step
    return DeliveriesAnswer(
        as_of=as_of(plane, pipeline),
        step=step,
        age_ms=seen.age_ms,
        unknown=seen.unknown,
        deliveries=delivery_facts(seen, step, plane.clock.now_ms()),
    )
