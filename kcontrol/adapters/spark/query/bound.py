"""A pipeline's queries bound to a Spark session: ready to start, with what the engine must know of each
plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.channel.schemas import OutputPlan
from kcontrol.adapters.spark.query.grouping import Misplaced
from kcontrol.core.model import SHARED_OUT, PipelineSpec, WatermarkPolicy
from kcontrol.core.step.assignment import owners_of
from kcontrol.definition.exchanges import ExchangeFacts
from kcontrol.definition.frames import OutputMode
from kcontrol.definition.resolve import QueryFacts
from kcontrol.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """One Spark query. `frame` has the columns that `targets` names.

    name: unique in the pipeline; names Spark's checkpoint directory too. mode: Spark's output mode.
    outputs: that it writes; more than one only with a column `output`. inputs: that it reads.
    narrow: no row ever moves to another task. unkeyed: rows bring neither a key nor a partition.
    stateful_operators: a text for each operator with state, the same for every plan of the query.
    scattered: what it does that needs rows of several nodes, and what would help; only looked for where there are
        several.
    gathers: it brings rows together, with or without state. regrouped: and all of them, on one way.
    skipping: inputs whose bad records are left out and counted. sources: how many streams the plan reads.
    columns: by input, those that the query can see; an input that is not named there is seen whole.
    once: the same query of batch frames, if it is to be planned once; None: Spark runs it as a stream. Of each
        input they have `most_tasks` tasks. once_of: gives the same with so many tasks, for the rare step that an
        earlier definition has cut into more; raises ConfigurationError if the pipeline's functions give another.
    raw_of: gives a batch frame of an input with so many tasks, without what is parsed of its values, if the plan of the query,
        which keeps state, is to be kept. It has `most_tasks` tasks, or more where a step was cut into more.
    sending: gives a batch frame without rows, whose tasks, so many, send what they read, if nothing of the rows is for Spark to
        do.
    stage: of the step, in which it runs. sends: the exchange that its rows are for, which then are exchanged columns,
        their shard and two hashes (see `exchanging`); '' if they are for outputs. exchanges: that it reads, in place
        of inputs. where: file and line that it comes from.
    delays_ms: of each of its watermark operators, in the order of the plan. policy: which of several watermarks counts.
    make_sent: what its rows become, those of a step as a batch frame, before they are sent; None: they are sent as they are.
    """

    name: str
    frame: DataFrame
    mode: OutputMode
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    narrow: bool
    unkeyed: bool
    stateful_operators: tuple[str, ...]
    has_watermark: bool
    skipping: tuple[str, ...] = ()
    sources: int = 1
    scattered: tuple[Misplaced, ...] = ()
    gathers: bool = False
    regrouped: bool = False
    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    once: DataFrame | None = None
    once_of: Callable[[int], DataFrame] | None = None
    most_tasks: int = 0
    raw_of: Callable[[str, int], DataFrame] | None = None
    sending: Callable[[int], DataFrame] | None = None
    stage: int = 0
    sends: str = ""
    exchanges: tuple[str, ...] = ()
    where: str = ""
    delays_ms: tuple[int, ...] = ()
    policy: WatermarkPolicy = WatermarkPolicy.MIN
    make_sent: Callable[[DataFrame], DataFrame] | None = None

    @property
    def stateful(self) -> bool:
        return bool(self.stateful_operators)

    @property
    def ends_as(self) -> StructType:
        """The columns that its writer tasks get."""
        return (self.frame if self.make_sent is None else self.make_sent(self.frame)).schema

    @property
    def keyed(self) -> bool:
        """Whether its rows bring keys, which decide about their partition."""
        return not self.sends and "key" in self.frame.columns

    def facts(self) -> QueryFacts:
        """What the pipeline's spec is made from."""
        return QueryFacts(
            name=self.name,
            outputs=self.outputs,
            mode=self.mode,
            stateful_operators=self.stateful_operators,
            brings_key=self.keyed,
            has_watermark=self.has_watermark,
            scattered=tuple(each.what for each in self.scattered),
            remedies=tuple(each.by for each in self.scattered),
            gathers=self.gathers,
            inputs=self.inputs,
            stage=self.stage,
            sends=self.sends,
            exchanges=self.exchanges,
            where=self.where,
            delays_ms=self.delays_ms,
            policy=self.policy,
        )


@dataclass(frozen=True, slots=True)
class BoundQueries:
    """All queries of a pipeline on one node."""

    pipeline: str
    queries: tuple[BoundQuery, ...]
    warnings: tuple[str, ...] = ()
    planning: str = ""
    """When Spark plans them: `once`, or `each step`, with the reason."""
    exchanges: tuple[ExchangeFacts, ...] = ()
    """Those between its queries, and then those that bring rows to the nodes that write them."""
    schemas: tuple[OutputPlan, ...] = ()
    """By which outputs are written whose values begin with the id that a registry has for them."""

    @property
    def names(self) -> tuple[str, ...]:
        """As PipelineSpec.queries wants them."""
        return tuple(query.name for query in self.queries)

    def on_node(self, spec: PipelineSpec, node: int) -> BoundQueries:
        """Those that the node runs: all but queries whose every input another node reads alone, or which read what is
        brought to one other node. Run here they would give what a query gives of no rows at all, such as a count of 0."""
        homes = {item.name: item.node for item in spec.inputs}
        of_all = owners_of(spec)[0]
        homes |= {each.name: of_all for each in self.exchanges if not each.by}
        mine = [
            query
            for query in self.queries
            if {homes.get(name, SHARED_OUT) for name in (*query.inputs, *query.exchanges)}
            & {node, SHARED_OUT}
        ]
        return replace(self, queries=tuple(mine))

    @property
    def recorded(self) -> tuple[str, ...]:
        """Those whose batches Spark records on disk."""
        return tuple(query.name for query in self.queries if query.once is None)

    def check_spec(self, spec: PipelineSpec) -> None:
        """Raise ConfigurationError unless the log was made with queries of these names."""
        if spec.queries != self.names:
            raise ConfigurationError(
                f"pipeline {spec.pipeline!r}: its log was made with the queries {', '.join(spec.queries)}; this "
                f"code has {', '.join(self.names)}"
            )

    def facts(self) -> tuple[QueryFacts, ...]:
        """What the pipeline's spec is made from."""
        return tuple(query.facts() for query in self.queries)
