"""What one node has to do of a step: what it reads, what its queries may write and to whom they send, and in which stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.exchanging import Stages
from kcontrol.adapters.spark.channel.targets import OutputTarget, SendTarget
from kcontrol.adapters.spark.query.bound import BoundQueries, BoundQuery
from kcontrol.adapters.spark.state.assembling import QueryNeeds
from kcontrol.adapters.spark.state.shards import OwnedShards, can_run_some
from kcontrol.core.model import (
    ExchangeSlice,
    ExchangeSpec,
    FailureKind,
    InputRange,
    Layout,
    OutputSpec,
    PipelineSpec,
    StepWork,
)
from kcontrol.core.step.assignment import owned_by, owners_of
from kcontrol.core.step.exchange import stages_of
from kcontrol.core.step.layout import writers_of
from kcontrol.core.step.offsets import node_of


class NodeWork:
    """Of one node, by the spec that its queries were bound for. compression: by output and exchange. bound: the
    queries that the node runs."""

    def __init__(
        self, spec: PipelineSpec, node: int, bound: BoundQueries, compression: Mapping[str, str]
    ) -> None:
        self._spec, self._bound, self._compression = spec, bound, compression
        self.node = node
        self.last_stage = stages_of(spec) - 1
        self.exchanges: Mapping[str, ExchangeSpec] = {each.name: each for each in spec.exchanges}
        stages = dict(zip(spec.queries, spec.stages, strict=True)) if spec.stages else {}
        self._stages = {query.name: stages.get(query.name, 0) for query in bound.queries}
        self._stages |= {each.name: each.stage + 1 for each in spec.exchanges if each.delivers}

    @property
    def names(self) -> frozenset[str]:
        """Of all whose results a step waits for: queries, and exchanges that are delivered."""
        return frozenset(self._stages)

    def stages(self, layout: Layout) -> Stages:
        """How a step with this layout is cut."""
        readers = {each.exchange: each.readers for each in layout.exchanges}
        return Stages(self.node, self._stages, readers)

    def of_stage(self, stage: int) -> frozenset[str]:
        """Those of a stage."""
        return frozenset(name for name, its in self._stages.items() if its == stage)

    def inputs(self, work: StepWork) -> Sequence[InputRange]:
        """What the node reads of the division."""
        return [item for item in work.division if self._reads(item)]

    def reading(self, exchange: str) -> Sequence[str]:
        """Who reads an exchange on this node: queries, or whoever delivers it, by its name."""
        if self.exchanges[exchange].delivers:
            return [exchange]
        return [query.name for query in self._bound.queries if exchange in query.exchanges]

    def delivered(self, stage: int | None) -> Sequence[ExchangeSpec]:
        """The exchanges whose rows the node writes to its partitions of outputs in a stage; None: in any."""
        return [each for each in self._spec.exchanges if each.delivers and stage in (each.stage + 1, None)]

    def query(self, name: str) -> BoundQuery:
        return next(query for query in self._bound.queries if query.name == name)

    def shards(self, spark: SparkSession) -> Mapping[str, OwnedShards]:
        """Of each query that is run for some shards only: those that the node owns. Where all rows of a shard come to the
        node that owns it, the state of the others would be empty."""
        queries = [query.name for query in self._bound.queries if query.exchanges and query.stateful]
        if self._spec.nodes == 1 or not queries or not can_run_some(spark):
            return {}
        count = self._spec.layout.shuffle_partitions
        owned = OwnedShards(owned_by(owners_of(self._spec), self.node), count)
        return dict.fromkeys(queries, owned)

    @property
    def needs(self) -> Mapping[str, QueryNeeds]:
        """Of the queries whose batches Spark records: what each is. With one node all state is in its shards, whatever
        divides it, and several can be given them if they have the rows exchanged."""
        return {
            query.name: QueryNeeds(
                query.stateful,
                query.stateful and bool(self._spec.nodes == 1 or query.exchanges),
                query.sources,
            )
            for query in self._bound.queries
            if query.once is None
        }

    def own_partitions(self, attempt: AttemptLedger, query: str) -> dict[str, tuple[int, ...]]:
        """By output of a query, the partitions that its writers here may write."""
        bound = self.query(query)
        if self.sends(bound, attempt):
            return {}
        return {target.name: target.own for target in self.targets(bound, attempt)}

    def targets(self, bound: BoundQuery, attempt: AttemptLedger) -> tuple[OutputTarget, ...]:
        """The outputs of a query. Raises StepFailedError (QUERY), which ends the attempt, when a step that is run again
        was made by a definition that lacks one of them."""
        return tuple(
            self._target(output, attempt) for output in self._spec.outputs if output.name in bound.outputs
        )

    def target(self, name: str, attempt: AttemptLedger) -> OutputTarget:
        """One output. Raises as `targets`."""
        return self._target(next(each for each in self._spec.outputs if each.name == name), attempt)

    def _target(self, output: OutputSpec, attempt: AttemptLedger) -> OutputTarget:
        layouts = {layout.output: layout for layout in attempt.work.layout.outputs}
        if output.name not in layouts:
            raise attempt.fail(
                FailureKind.QUERY,
                f"step {attempt.work.step} was made by a definition without output {output.name!r}: run it "
                "again by that one",
            )
        return OutputTarget(
            name=output.name,
            topic=output.topic,
            partitions=layouts[output.name].partitions,
            own=attempt.work.writers[self._spec.outputs.index(output)],
            digest=layouts[output.name].digest,
            compression=self._compression.get(output.name, "none"),
        )

    def sends(self, bound: BoundQuery, attempt: AttemptLedger) -> tuple[SendTarget, ...]:
        """The exchanges to which a query's rows go, instead of to outputs. Raises as `targets`."""
        return tuple(self._send(each, attempt) for each in self._spec.exchanges if each.sender == bound.name)

    def _send(self, exchange: ExchangeSpec, attempt: AttemptLedger) -> SendTarget:
        layout, nodes = self._spec.layout, self._spec.nodes
        output = self.target(exchange.delivers, attempt) if exchange.delivers else None
        owners = (
            owners_of(self._spec)
            if output is None
            else self._writers(exchange.delivers, attempt.work.layout, output.partitions)
        )
        first = self.node * layout.max_tasks
        compression = self._compression.get(exchange.name, "lz4")
        return SendTarget(exchange.name, exchange.topic, first, nodes, owners, output, compression)

    def _writers(self, output: str, layout: Layout, partitions: int) -> tuple[int, ...]:
        """By partition of an output, the node that writes it."""
        place = next(index for index, each in enumerate(self._spec.outputs) if each.name == output)
        found = [0] * partitions
        for node in range(self._spec.nodes):
            for partition in writers_of(self._spec, layout, node)[place]:
                found[partition] = node
        return tuple(found)

    def _reads(self, item: InputRange) -> bool:
        spec = next(candidate for candidate in self._spec.inputs if candidate.name == item.input)
        return node_of(spec, self._spec.nodes, item.partition) == self.node

    def silent(self, attempt: AttemptLedger, sent: Sequence[ExchangeSlice]) -> tuple[ExchangeSlice, ...]:
        """Of the tasks that were to send something here and are not among these: that they sent nothing."""
        first = self.node * self._spec.layout.max_tasks
        said = {(piece.exchange, piece.partition) for piece in sent}
        return tuple(
            ExchangeSlice(each.exchange, slot, 0, 0, ())
            for each in attempt.work.layout.exchanges
            if self._runs(each.exchange)
            for slot in range(first, first + each.senders)
            if (each.exchange, slot) not in said
        )

    def _runs(self, exchange: str) -> bool:
        """Whether the node runs the sender of an exchange."""
        return exchange in self.exchanges and self.exchanges[exchange].sender in self._stages
