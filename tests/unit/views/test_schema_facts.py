"""Which schemas of a registry people are told that the log holds."""

from __future__ import annotations

from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import InputSchema, Logged, OutputSchema
from kcontrol.views.schema_facts import SchemaFacts, schemas_of


def test_schemas_of_inputs_come_first_with_the_step_in_which_the_first_node_knew_them() -> None:
    records = [
        OutputSchema("p", "out", 9, "topic-value", "JSON", "{}"),
        InputSchema("p", 1, 7, 12, "AVRO", "{}", ()),
        InputSchema("p", 0, 7, 4, "AVRO", "{}", ()),
        InputSchema("p", 0, 3, 5, "AVRO", "{}", ()),
        InputSchema("another", 0, 1, 1, "AVRO", "{}", ()),
    ]
    view = PipelineView.empty("p")
    for offset, record in enumerate(records):
        view = evolve(view, Logged(offset, 0, record))
    assert schemas_of(view) == [
        SchemaFacts(id=3, output="", subject="", kind="AVRO", known_from=5),
        SchemaFacts(id=7, output="", subject="", kind="AVRO", known_from=4),
        SchemaFacts(id=9, output="out", subject="topic-value", kind="JSON", known_from=None),
    ]
