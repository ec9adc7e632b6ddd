"""A pipeline as its user defines it: inputs, outputs, settings, and the functions that make frames out of
frames.

Making one touches neither Kafka nor Spark, so a pipeline file can be imported anywhere. The node builds its
frames with `Pipeline.build`; `definition_spec.build_spec` makes what is logged of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field

from kcontrol.definition.errors import definition
from kcontrol.definition.exchanges import asking
from kcontrol.definition.files import check_nodes
from kcontrol.definition.frames import FrameQuery, frame_queries
from kcontrol.definition.homes import check_pins
from kcontrol.definition.inputs import Input
from kcontrol.definition.limits import Limits
from kcontrol.definition.parts import CheckpointPolicy, KafkaOutput, StepPolicy, TaskLayout
from kcontrol.definition.query_errors import query_error
from kcontrol.definition.rebalance import Rebalance
from kcontrol.errors import ConfigurationError
from kcontrol.wire.names import check_no_collisions, check_part_name, check_pipeline_name

MAX_NODES = 1_000

QueryFunction = TypeVar("QueryFunction", bound=Callable[..., Any])
Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class Query:
    """A function of the user's. parameters: inputs by name, and `spark` if wanted. where: file and line."""

    name: str
    function: Callable[..., Any]
    parameters: tuple[str, ...]
    where: str

    def frames(
        self, pipeline: str, spark: Any, inputs: Mapping[str, Any], outputs: Sequence[str]
    ) -> tuple[FrameQuery, ...]:
        """Call it with the session and the inputs' frames it asks for. Raises QueryError
        if it fails, ConfigurationError."""
        arguments = {name: spark if name == "spark" else inputs[name] for name in self.parameters}
        try:
            with asking(self.name):
                result = self.function(**arguments)
        except (Exception, SystemExit) as error:
            raise query_error(self.where, pipeline, self.name, self.function, error) from error
        return tuple(frame_queries(self.where, self.name, result, outputs))


@definition
class Pipeline:
    """A pipeline: named inputs, queries and outputs, run step by step.

    name: lower-case letters, digits and hyphens. nodes: how many Spark applications share the partitions.
    inputs: what it reads, one or more. outputs: the topics that it writes, one or more.
    steps: when steps are made. layout: how they are cut into tasks. limits: deadlines and retries.
    checkpoint: where saved state goes, how often, and what is kept. None: nowhere; a node that lost its
        directory then replays from the first step, if Kafka still has the input.
    rebalance: when state is divided anew over the nodes without anybody asking for it. None: never.
    compatible_with: fingerprints of earlier definitions that this one may replace, if its structure has
    changed.
    allow_nondeterministic: don't refuse queries with rand() and its like; a step that is run again may then
        differ from the log, and a node that has to do so halts the pipeline.
    plan_once: have Spark plan queries once, not anew for each step: each query that allows it.
        What they give is the same.
    max_stages: how many stages a step may have at most: one more than there are exchanges one after the other, and
         one for rows to come to the nodes that write them.
    """

    name: str
    _: KW_ONLY
    inputs: Annotated[Sequence[Input], Field(min_length=1), AfterValidator(tuple)]
    outputs: Annotated[Sequence[KafkaOutput], Field(min_length=1), AfterValidator(tuple)]
    nodes: Annotated[int, Field(ge=1, le=MAX_NODES)] = 1
    steps: StepPolicy = field(default_factory=StepPolicy)
    layout: TaskLayout = field(default_factory=TaskLayout)
    limits: Limits = field(default_factory=Limits)
    checkpoint: CheckpointPolicy | None = field(default_factory=CheckpointPolicy)
    rebalance: Rebalance | None = None
    compatible_with: Annotated[Sequence[Fingerprint], AfterValidator(tuple)] = ()
    allow_nondeterministic: bool = False
    plan_once: bool = True
    max_stages: Annotated[int, Field(ge=1, le=100)] = 4
    _queries: list[Query] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_pipeline_name(self.name)
        _check_different(self.name, "input", [each.name for each in self.inputs])
        _check_different(self.name, "output", [each.name for each in self.outputs])
        self._check_topics()
        check_pins(self)
        self._check_rebalance()
        check_nodes(self.name, tuple(self.inputs), self.nodes)

    def _check_rebalance(self) -> None:
        if self.rebalance is None:
            return
        where = f"pipeline {self.name!r}: rebalance"
        if self.checkpoint is None:
            raise ConfigurationError(
                f"{where} moves state by way of checkpoints, and checkpoint = None: give it kcontrol.Checkpoint(...), or leave "
                "rebalance out"
            )
        placed = next((each.name for each in self.outputs if each.partitioner == "shard"), None)
        if placed is not None:
            raise ConfigurationError(
                f"{where} gives shards to other nodes, and output {placed!r} has partitioner = 'shard', whose partitions go "
                "with them: leave one of the two out"
            )

    def with_nodes(self, nodes: int) -> Pipeline:
        """The same pipeline on another number of nodes. Raises ConfigurationError as the definition itself
        would."""
        return self._with(nodes=nodes)

    def with_shards(self, shards: int) -> Pipeline:
        """The same pipeline with so many partitions of state."""
        return self._with(layout=replace(self.layout, shuffle_partitions=shards))

    def _with(self, **changes: Any) -> Pipeline:
        twin = replace(self, **changes)
        twin._queries.extend(self._queries)  # noqa: SLF001 - it is of the same class
        return twin

    @property
    def queries(self) -> tuple[Query, ...]:
        """The functions given to `query`, in order."""
        return tuple(self._queries)

    def input(self, name: str) -> Input:
        """The input of that name; ConfigurationError if there is none."""
        return _by_name(self.name, "input", self.inputs, name)

    def output(self, name: str) -> KafkaOutput:
        """The output of that name; ConfigurationError if there is none."""
        return _by_name(self.name, "output", self.outputs, name)

    def query(self, function: QueryFunction) -> QueryFunction:
        """Decorator: a function from the frames of the inputs it names as parameters (and
        `spark`) to frames for outputs.

        It returns {output: frame}, with `kcontrol.output(frame, mode=...)` for another mode than append; or
        one frame if it is named as an output; or `kcontrol.outputs(frame, to=[...])`.
        """
        where = _where(function)
        name = check_part_name(f"{where}: query", function.__name__)
        if any(query.name == name for query in self._queries):
            raise ConfigurationError(f"{where}: pipeline {self.name!r} already has a query named {name!r}")
        parameters = inspect.signature(function).parameters
        known = [each.name for each in self.inputs]
        for parameter in parameters.values():
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise ConfigurationError(
                    f"{where}: query {name!r}: {parameter} is not allowed; name inputs as plain parameters"
                )
            if parameter.name != "spark" and parameter.name not in known:
                raise ConfigurationError(
                    f"{where}: query {name!r} has the parameter {parameter.name!r}, which is no input of "
                    f"pipeline {self.name!r}; its inputs are {', '.join(known)}"
                )
        if not set(parameters) & set(known):
            raise ConfigurationError(
                f"{where}: query {name!r} reads no input: name one of {', '.join(known)} as a parameter"
            )
        self._queries.append(Query(name, function, tuple(parameters), where))
        return function

    def build(self, spark: Any, read: Callable[[str], Any]) -> tuple[FrameQuery, ...]:
        """Call every query and return the Spark queries to run, in order of their definition.

        read: gives the streaming frame of an input, by name. Raises ConfigurationError unless every output
        is served by exactly one frame.
        """
        if not self._queries:
            raise ConfigurationError(
                f"pipeline {self.name!r} has no query: decorate a function with @pipeline.query"
            )
        names = [each.name for each in self.outputs]
        frames: list[FrameQuery] = []
        for query in self._queries:
            inputs = {name: read(name) for name in query.parameters if name != "spark"}
            frames.extend(query.frames(self.name, spark, inputs, names))
        self.check_served(frames)
        return tuple(frames)

    def check_served(self, frames: Sequence[FrameQuery]) -> None:
        """Raise ConfigurationError unless every output is served by exactly one of the frames."""
        served = [name for frame in frames for name in frame.outputs]
        for each in self.outputs:
            if served.count(each.name) != 1:
                what = (
                    "no frame serves it"
                    if each.name not in served
                    else "more than one frame serves it; union them into one"
                )
                raise ConfigurationError(f"pipeline {self.name!r}, output {each.name!r}: {what}")

    def _check_topics(self) -> None:
        reads = {each.topic: f"input {each.name!r}" for each in self.inputs if each.topic}
        writes: dict[str, str] = {}
        targets = [(f"output {each.name!r}", each.topic) for each in self.outputs]
        targets += [
            (f"dead_letter_topic of input {each.name!r}", each.dead_letter_topic or "")
            for each in self.inputs
        ]
        for what, topic in targets:
            if topic and topic in reads:
                raise ConfigurationError(
                    f"pipeline {self.name!r}: {what} writes topic {topic!r}, which {reads[topic]} reads"
                )
            if topic and writes.setdefault(topic, what) != what:
                raise ConfigurationError(
                    f"pipeline {self.name!r}: {what} and {writes[topic]} both write topic {topic!r}: "
                    "give each its own"
                )
        check_no_collisions(
            {topic: f"pipeline {self.name!r}, {what}" for topic, what in {**reads, **writes}.items()}
        )


Part = TypeVar("Part", Input, KafkaOutput)


def _by_name(pipeline: str, what: str, parts: Sequence[Part], name: str) -> Part:
    for part in parts:
        if part.name == name:
            return part
    known = ", ".join(part.name for part in parts)
    raise ConfigurationError(f"pipeline {pipeline!r} has no {what} {name!r}; there are {known}")


def _check_different(pipeline: str, what: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"pipeline {pipeline!r} has two {what}s named {name!r}: names must differ"
            )
        if what == "input" and name == "spark":
            raise ConfigurationError(
                f"pipeline {pipeline!r}: an input can't be named 'spark': queries get the session by "
                "that name"
            )


def _where(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        raise ConfigurationError(f"@pipeline.query was given {function!r}: decorate a function")
    return f"{code.co_filename}, line {code.co_firstlineno}"
