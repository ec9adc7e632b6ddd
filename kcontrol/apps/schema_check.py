"""What the registry of schemas can say of a pipeline before Spark is started."""

from __future__ import annotations

import json
import logging
from typing import Any

from fastavro.schema import parse_schema

from kcontrol.adapters.registry.client import AVRO, PROTOBUF, RegistryClient
from kcontrol.apps.schema_book import no_registry
from kcontrol.definition.parts import KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.definition.protos import proto_schema
from kcontrol.definition.schemas import of_registry, schema_text
from kcontrol.errors import ConfigurationError, RegistryAwayError, RegistryError
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.schemas")


def check_schemas(settings: ClusterSettings, pipeline: Pipeline) -> None:
    """Raises ConfigurationError when there is no registry for values that need one; RegistryError when it refuses the
    login, or would refuse the schema of an output. Registers nothing.

    Only schemas that the definition gives are known by now; one that follows from a frame is looked at when the
    node starts. A registry that is away is no error: for what the log knows it is not needed.
    """
    parts = [(f"input {each.name!r}", each.value_format) for each in pipeline.inputs]
    parts += [(f"output {each.name!r}", each.value_format) for each in pipeline.outputs]
    needing = [where for where, value_format in parts if of_registry(value_format)]
    if not needing:
        return
    registry = settings.schema_registry
    if registry is None:
        raise ConfigurationError(no_registry(f"pipeline {pipeline.name!r}, {needing[0]}"))
    once = registry.model_copy(update={"deadline_ms": registry.request_timeout_ms})
    given = [each for each in pipeline.outputs if of_registry(each.value_format) and each.schema is not None]
    with RegistryClient(once) as client:
        try:
            for output in given:
                _check_output(client, pipeline, output)
        except RegistryAwayError as error:
            _log.warning("%s; it is asked again when it is needed", error)


def _check_output(client: RegistryClient, pipeline: Pipeline, output: KafkaOutput) -> None:
    where = f"pipeline {pipeline.name!r}, output {output.name!r}"
    kind, text, name = _given_schema(where, output)
    subject = output.subject_of(name)
    if client.registered(subject, kind, text) is not None:
        return
    if not output.register_schema:
        raise RegistryError(
            f"{where}: subject {subject!r} does not have its schema, and register_schema is False: register it first, or "
            "leave register_schema out"
        )
    if why := client.why_incompatible(subject, kind, text):
        raise RegistryError(
            f"{where}: its schema is not compatible with what subject {subject!r} has: {why}; change the schema, or the "
            "subject's compatibility in the registry"
        )


def _given_schema(where: str, output: KafkaOutput) -> tuple[str, str, str]:
    """(its kind, as the registry takes it, the full name of what it describes)."""
    if output.value_format == "confluent-protobuf":
        schema = proto_schema(where, output.schema)
        return PROTOBUF, schema.text, schema.message
    definition: Any = json.loads(schema_text(output.schema))
    parsed: Any = parse_schema(definition)
    return AVRO, json.dumps(definition, separators=(",", ":")), parsed["name"]
