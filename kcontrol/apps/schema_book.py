"""The schemas that a pipeline's log holds, which is all that its steps go by; and what puts them there.

A registry is asked for an id only if the log has none of it, and then once for all nodes; what it says is in the log before
any task goes by it, so before the step commits. A step that is run again asks nobody but the log: what was not known when
it was made is not known now (decision 089).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.registry.client import RegistryClient
from kcontrol.adapters.spark.channel.schemas import AskedFor, OutputPlan
from kcontrol.core.model import ControlRecord, InputSchema, Logged, OutputSchema
from kcontrol.errors import ConfigurationError, RegistryAwayError, RegistryError
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.schemas")

AskRegistry = Callable[[RegistryClient], Iterable[ControlRecord]]


class SchemaBook:
    """Implements `Schemas` over the control log. Any thread may ask; the answer may take as long as registry and log do.

    writes: what is found is put into the log. False: only the log is asked, by whoever runs steps again.
    """

    def __init__(self, settings: ClusterSettings, pipeline: str, *, writes: bool = True) -> None:
        self._settings, self._pipeline, self._writes = settings, pipeline, writes
        self._turn = threading.Lock()
        self._inputs: dict[tuple[int, int], InputSchema] = {}
        """By (id, node)."""
        self._outputs: dict[tuple[str, int], OutputSchema] = {}
        """By (output, id), the newest last."""
        self._attempt = (-1, -1)
        """Step and serial of the attempt that was asked for last, and what was unknown in it."""
        self._unknown: set[int] = set()

    def prepare(self, plans: Sequence[OutputPlan]) -> None:
        """See to it that the log has the id of each output's schema, for which the registry is asked if it has not.

        Raises RegistryError when the registry does not take a schema, or does not have one that it is to have;
        ConfigurationError when there is no registry; and what the log raises.
        """
        if not plans:
            return
        with self._turn:
            self._look(lambda registry: self._placed(registry, plans), lambda: self._unplaced(plans))
            self._check_shared(plans)

    def of_inputs(self, ids: Sequence[int], what: AskedFor) -> Mapping[int, InputSchema]:
        """As the port says."""
        with self._turn:
            if (what.step, what.serial) != self._attempt:
                self._attempt, self._unknown = (what.step, what.serial), set()
            missing = [
                each for each in ids if (each, what.node) not in self._inputs and each not in self._unknown
            ]
            if missing:
                self._look(
                    lambda registry: self._found(registry, missing, what),
                    lambda: (
                        [] if what.replayed else [e for e in missing if (e, what.node) not in self._inputs]
                    ),
                )
                self._unknown.update(each for each in missing if (each, what.node) not in self._inputs)
            found = {each: self._inputs.get((each, what.node)) for each in ids if each not in self._unknown}
            return {
                each: schema
                for each, schema in found.items()
                if schema is not None and schema.known_from <= what.step
            }

    def of_output(self, output: str, text: str) -> int:
        """As the port says. Of a schema that the log does not have, because the code has changed since: the newest."""
        with self._turn:
            found = self._of_output(output, text)
            if found is None:
                self._look(lambda _: (), lambda: ())
                found = self._of_output(output, text)
            if found is None:
                raise RegistryError(
                    f"output {output!r}: the log of pipeline {self._pipeline!r} has no schema of it: was it made with "
                    "another format?"
                )
            return found

    def _of_output(self, output: str, text: str) -> int | None:
        mine = [each for each in self._outputs.values() if each.output == output]
        return next(
            (each.schema_id for each in reversed(mine) if each.text == text),
            mine[-1].schema_id if mine else None,
        )

    def _look(self, ask: AskRegistry, lacks: Callable[[], Sequence[object]]) -> None:
        """Read the log to its end, and if it still lacks something ask the registry, and write what that says."""
        asyncio.run(self._look_in_log(ask, lacks))

    async def _look_in_log(self, ask: AskRegistry, lacks: Callable[[], Sequence[object]]) -> None:
        log = await KafkaControlLog.open(self._settings, self._pipeline)
        try:
            if not self._writes:
                self._take(await log.read_to_end())
                return
            self._take(await log.read_to_barrier(self._pipeline))
            if not lacks():
                return
            with self._registry() as registry:
                records = list(ask(registry))
            if records:
                offsets = await log.append(records)
                self._take(Logged(at, 0, record) for at, record in zip(offsets, records, strict=True))
        finally:
            await log.close()

    def _take(self, entries: Iterable[Logged]) -> None:
        for logged in entries:
            match logged.record:
                case InputSchema(node=node, schema_id=schema_id) as found:
                    self._inputs[schema_id, node] = found
                case OutputSchema(output=output, schema_id=schema_id) as found:
                    self._outputs.pop((output, schema_id), None)
                    self._outputs[output, schema_id] = found
                case _:
                    pass

    def _registry(self) -> RegistryClient:
        if self._settings.schema_registry is None:
            raise ConfigurationError(no_registry(f"pipeline {self._pipeline!r}"))
        return RegistryClient(self._settings.schema_registry)

    def _found(
        self, registry: RegistryClient, missing: Sequence[int], what: AskedFor
    ) -> Iterable[InputSchema]:
        """What is known of the ids that this node has not met: by other nodes, or by the registry. Raises RegistryAwayError:
        too many are unknown, so that the others have to be left unasked, of which nobody can say whether they are."""
        unknown = len(self._unknown)
        for schema_id in missing:
            if (schema_id, what.node) in self._inputs:
                continue
            known = next((each for (i, _), each in self._inputs.items() if i == schema_id), None)
            if known is not None:
                kind, text, references = known.kind, known.text, known.references
            else:
                found = registry.schema(schema_id)
                if found is None:
                    _log.warning(
                        "Schema %d, which step %d meets, is not in the registry", schema_id, what.step
                    )
                    unknown += 1
                    self._refuse_too_many(unknown, what)
                    continue
                kind, text, references = found.kind, found.text, found.references
            yield InputSchema(self._pipeline, what.node, schema_id, what.step, kind, text, references)

    def _refuse_too_many(self, unknown: int, what: AskedFor) -> None:
        registry = self._settings.schema_registry
        if registry is not None and unknown > registry.max_unknown_ids:
            raise RegistryAwayError(
                f"schema registry {registry.url} does not know more than {registry.max_unknown_ids} of the schemas that step "
                f"{what.step} meets, and is asked for no others: is it the registry of whoever writes the input? Else raise "
                "max_unknown_ids, or make steps smaller"
            )

    def _unplaced(self, plans: Sequence[OutputPlan]) -> list[OutputPlan]:
        return [
            plan
            for plan in plans
            if not any(
                (each.output, each.subject, each.kind, each.text)
                == (plan.output, plan.subject, plan.kind, plan.text)
                for each in self._outputs.values()
            )
        ]

    def _placed(self, registry: RegistryClient, plans: Sequence[OutputPlan]) -> Iterable[OutputSchema]:
        for plan in self._unplaced(plans):
            schema_id = placed(registry, plan)
            yield OutputSchema(self._pipeline, plan.output, schema_id, plan.subject, plan.kind, plan.text)

    def _check_shared(self, plans: Sequence[OutputPlan]) -> None:
        """One frame writes the values of all outputs that it serves: their one schema must have one id."""
        ids = {plan.output: self._of_output(plan.output, plan.text) for plan in plans}
        for group in {plan.group for plan in plans}:
            mine = {name: ids[name] for name in group}
            if len(set(mine.values())) > 1:
                raise RegistryError(
                    f"outputs {', '.join(mine)} are served by one frame, and the registry has different ids for their one "
                    f"schema, {', '.join(map(str, mine.values()))}: give each a frame of its own"
                )


def placed(registry: RegistryClient, plan: OutputPlan) -> int:
    """The id of an output's schema, which is put into the registry if it may be. Raises RegistryError."""
    where = f"output {plan.output!r}"
    if plan.registers:
        try:
            return registry.register(plan.subject, plan.kind, plan.text)
        except RegistryError as error:
            raise type(error)(f"{where}: {error}") from error
    found = registry.registered(plan.subject, plan.kind, plan.text)
    if found is None:
        raise RegistryError(
            f"{where}: subject {plan.subject!r} does not have its schema, and register_schema is False: register it first, "
            f"or leave register_schema out. It is {plan.text}"
        )
    return found


def no_registry(where: str) -> str:
    """What whoever needs a registry is told who has none."""
    return (
        f"{where} has values in the format of a schema registry, and there is none: put url into the table "
        "[schema_registry] of kcontrol.toml"
    )
