"""What the driver answers tasks that meet ids of a registry of schemas: from the log, which it sees to through a port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.messages import (
    AskOutputSchema,
    AskSchemas,
    KnownSchemas,
    WrittenSchema,
)
from kcontrol.core.failures import kind_of
from kcontrol.core.model import InputSchema
from kcontrol.errors import ConfigurationError, KcontrolError


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """By which schema values of an output are written. subject: under which the registry keeps it. registers: it is
    put there if it is not. group: the outputs whose values one frame writes, this one among them."""

    output: str
    subject: str
    kind: str
    text: str
    registers: bool
    group: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AskedFor:
    """What an answer is for. serial: of the attempt. replayed: the step is in the log."""

    node: int
    step: int
    serial: int
    replayed: bool


class Schemas(Protocol):
    """The schemas that the log of a pipeline holds. Any thread may ask."""

    def of_inputs(self, ids: Sequence[int], what: AskedFor) -> Mapping[int, InputSchema]:
        """By id, what the step knows. What is not in the log yet is put there before this returns, unless the step is
        replayed. Raises RegistryError, and what the log raises."""

    def of_output(self, output: str, text: str) -> int:
        """The id of an output's schema. Raises RegistryError if the log has none."""


class NoSchemas:
    """Of an application that was not told of any."""

    def of_inputs(self, ids: Sequence[int], what: AskedFor) -> Mapping[int, InputSchema]:
        raise ConfigurationError(f"step {what.step}, schemas {ids}: nobody here knows of a schema registry")

    def of_output(self, output: str, text: str) -> int:
        raise ConfigurationError(f"output {output!r}, schema {text}: nobody here knows of a schema registry")


def told_schemas(schemas: Schemas, node: int, attempt: AttemptLedger, asked: AskSchemas) -> KnownSchemas:
    """Raises StepFailedError, and the attempt fails for the same reason."""
    work = attempt.work
    what = AskedFor(node, work.step, attempt.serial, attempt.expected is not None)
    try:
        found = schemas.of_inputs(asked.ids, what)
    except KcontrolError as error:
        raise attempt.fail(kind_of(error), f"step {work.step}: input {asked.input!r}: {error}") from error
    return KnownSchemas(tuple(found), tuple(found[each] for each in found if each not in asked.held))


def told_output(schemas: Schemas, attempt: AttemptLedger, asked: AskOutputSchema) -> WrittenSchema:
    """Raises StepFailedError, and the attempt fails for the same reason."""
    try:
        return WrittenSchema(schemas.of_output(asked.output, asked.text))
    except KcontrolError as error:
        what = f"step {attempt.work.step}: output {asked.output!r}: {error}"
        raise attempt.fail(kind_of(error), what) from error
