"""Which schemas of a registry the log of a pipeline holds: without the registry, its steps can be made and run again as far
as that goes."""

from __future__ import annotations

from pydantic import Field

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import InputSchema, OutputSchema
from kcontrol.views.base import Facts


class SchemaFacts(Facts):
    """One schema, by its id in the registry."""

    id: int = Field(description="Its id in the registry.")
    output: str = Field(description="Whose values are written by it; '' for one that values of inputs name.")
    subject: str = Field(description="Under which the registry has it; '' for one of inputs.")
    kind: str = Field(description="AVRO, JSON or PROTOBUF.")
    known_from: int | None = Field(
        description="The first step in which a node knew it; null for one of outputs."
    )


def schemas_of(view: PipelineView) -> list[SchemaFacts]:
    """Those of inputs first, each by id."""
    met: dict[int, InputSchema] = {}
    written: list[OutputSchema] = []
    for logged in view.latest.values():
        match logged.record:
            case InputSchema(schema_id=schema_id, known_from=known_from) as found:
                if schema_id not in met or known_from < met[schema_id].known_from:
                    met[schema_id] = found
            case OutputSchema() as found:
                written.append(found)
            case _:
                pass
    return [
        *(
            SchemaFacts(
                id=number, output="", subject="", kind=met[number].kind, known_from=met[number].known_from
            )
            for number in sorted(met)
        ),
        *(
            SchemaFacts(
                id=each.schema_id, output=each.output, subject=each.subject, kind=each.kind, known_from=None
            )
            for each in sorted(written, key=lambda each: (each.output, each.schema_id))
        ),
    ]
