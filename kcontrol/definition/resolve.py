"""From a definition and what was found in Kafka and Spark to the PipelineSpec that is logged. Pure.

The fingerprint covers the structure that state and history depend on: nodes, inputs, outputs, queries with
their modes and stateful operators, layout. It does not cover the code of queries (a bug can be fixed under
the same name, as Spark allows), nor settings that may change between two incarnations: policy, limits,
checkpoints, compression, where the first step began.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kcontrol.core.model import (
    SHARED_OUT,
    CheckpointSpec,
    ExchangeSpec,
    InputSpec,
    LateRowsPolicy,
    LayoutSpec,
    OutputSpec,
    PipelineSpec,
    StepPolicySpec,
    WatermarkPolicy,
    WatermarkSpec,
)
from kcontrol.core.step.offsets import dealt_to
from kcontrol.definition.addressed import AddressedInput
from kcontrol.definition.exchange_rules import check_exchanges, check_readers, check_sharded
from kcontrol.definition.exchanges import ExchangeFacts
from kcontrol.definition.frames import OutputMode
from kcontrol.definition.homes import check_busy, home_of
from kcontrol.definition.inputs import Input
from kcontrol.definition.node_rules import check_keys, check_scattered, check_watermark, check_work
from kcontrol.definition.parts import CheckpointPolicy, KafkaInput, KafkaOutput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.definition.schemas import schema_text
from kcontrol.errors import ConfigurationError

FINGERPRINT_VERSION = 1
"""Goes up when the fingerprint of the same definition must change."""


@dataclass(frozen=True, slots=True)
class FoundInput:
    """What was found of an input's topic: its id, and by partition where step 1 begins (`start_offsets`).

    address: in place of a topic's name, where there is none.
    """

    topic_id: str
    start_offsets: tuple[int, ...]
    address: str = ""


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """What was found of an output's topic."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What was found of one Spark query.

    stateful_operators: a text for each, without anything that differs between two plans of the same query.
    brings_key: its rows have a column `key` of their own.
    scattered: a text for each operator that needs rows of several nodes, such as 'groups
    by origin'; empty with one node. remedies: to each of them, with what exchange() would bring the rows together.
    gathers: it brings rows together, with or without state.
    inputs: that it reads; empty: any of the pipeline's, or none if it reads exchanges.
    stage, sends, exchanges, where: see BoundQuery.
    delays_ms: of each of its watermark operators, in the order of the plan. policy: which of several watermarks counts.
    """

    name: str
    outputs: tuple[str, ...]
    mode: OutputMode
    stateful_operators: tuple[str, ...]
    brings_key: bool
    has_watermark: bool = False
    scattered: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    gathers: bool = False
    inputs: tuple[str, ...] = ()
    stage: int = 0
    sends: str = ""
    exchanges: tuple[str, ...] = ()
    where: str = ""
    delays_ms: tuple[int, ...] = ()
    policy: WatermarkPolicy = WatermarkPolicy.MIN


def start_offsets(source: KafkaInput, earliest: Sequence[int], latest: Sequence[int]) -> tuple[int, ...]:
    """By partition: the offset where step 1 begins, from the input's setting and the topic's offsets.

    latest: the offset after the last committed record. Raises ConfigurationError for a partition that is not
    there or an offset that is not between the two.
    """
    if source.starting_offsets == "earliest":
        return tuple(earliest)
    if source.starting_offsets == "latest":
        return tuple(latest)
    where = f"KafkaInput {source.name!r}: starting_offsets"
    found = list(earliest)
    for partition, offset in source.starting_offsets.items():
        if partition >= len(found):
            raise ConfigurationError(
                f"{where}: topic {source.topic!r} has no partition {partition}: it has {len(found)}"
            )
        if not earliest[partition] <= offset <= latest[partition]:
            raise ConfigurationError(
                f"{where}: partition {partition} of topic {source.topic!r} holds offsets "
                f"{earliest[partition]} to {latest[partition]}; {offset} is not one of them"
            )
        found[partition] = offset
    return tuple(found)


def build_spec(
    pipeline: Pipeline,
    inputs: Mapping[str, FoundInput],
    outputs: Mapping[str, OutputFacts],
    queries: Sequence[QueryFacts],
    exchanges: Sequence[ExchangeFacts] = (),
    topics: Mapping[str, str] = MappingProxyType({}),
) -> PipelineSpec:
    """The spec of a pipeline. inputs, outputs: facts by name; dead-letter outputs
    (`INPUT.dead_letter`) among them. topics: of the exchanges, by name; they
    may not be there yet, and the spec has no ids of them.

    Raises ConfigurationError if the pipeline can't be right on its number of nodes.
    """
    read = tuple(_input_spec(each, inputs[each.name], pipeline.nodes) for each in pipeline.inputs)
    written = [_output_spec(each, outputs[each.name]) for each in pipeline.outputs]
    for each in pipeline.inputs:
        if each.dead_letter_topic is not None:
            found = outputs[each.dead_letter_output]
            written.append(_dead_letter_spec(each, each.dead_letter_topic, found))
    stateful = any(query.stateful_operators for query in queries)
    homes = [SHARED_OUT if query.exchanges else home_of(pipeline, query.inputs) for query in queries]
    check_busy(pipeline, homes)
    _check_nodes(pipeline, read, written, queries, homes, exchanges)
    return PipelineSpec(
        pipeline=pipeline.name,
        fingerprint=fingerprint(pipeline, queries, exchanges=exchanges),
        compatible_with=tuple(pipeline.compatible_with),
        nodes=pipeline.nodes,
        queries=tuple(query.name for query in queries),
        stateful=stateful,
        inputs=read,
        outputs=tuple(written),
        policy=StepPolicySpec(
            min_records=pipeline.steps.min_records,
            max_delay_ms=pipeline.steps.max_delay_ms,
            max_records=pipeline.steps.max_records,
            clock_ms=pipeline.steps.clock_ms,
            late_rows=LateRowsPolicy(pipeline.steps.late_rows),
            gaps_delay_ms=pipeline.steps.gaps_delay_ms,
        ),
        layout=LayoutSpec(
            max_tasks=pipeline.layout.max_tasks,
            records_per_task=pipeline.layout.records_per_task,
            shuffle_partitions=pipeline.layout.shuffle_partitions,
        ),
        limits=pipeline.limits.to_spec(),
        checkpoint=_checkpoint_spec(pipeline.checkpoint),
        exchanges=tuple(_exchange_spec(each, topics[each.name]) for each in exchanges),
        stages=tuple(query.stage for query in queries) if exchanges else (),
        watermarks=tuple(
            WatermarkSpec(query.name, query.delays_ms, query.policy)
            for query in queries
            if query.exchanges and query.has_watermark and query.stateful_operators
        ),
        kept_in_place=_kept_in_place(pipeline, queries),
        rebalance=None if pipeline.rebalance is None else pipeline.rebalance.to_spec(),
    )


def _check_nodes(
    pipeline: Pipeline,
    read: Sequence[InputSpec],
    written: Sequence[OutputSpec],
    queries: Sequence[QueryFacts],
    homes: Sequence[int],
    exchanges: Sequence[ExchangeFacts],
) -> None:
    """Raise ConfigurationError if several nodes could give another result than one.

    What is behind an exchange was looked at when it was bound: its rows are together, and come to whoever may write
    them, as all do that are delivered. What only sends needs nothing of the rows.
    """
    check_exchanges(pipeline, queries, exchanges)
    check_readers(queries, exchanges)
    shared = [
        query
        for query, home in zip(queries, homes, strict=True)
        if home == SHARED_OUT and not query.exchanges
    ]
    pinned = {each.name for each in read if each.node != SHARED_OUT}
    for query in shared:
        if not pinned & set(query.inputs):
            check_scattered(pipeline, query)
    placed = [query for query in shared if not query.sends or query.gathers or query.stateful_operators]
    behind = {name for query in queries if query.exchanges for name in query.outputs}
    check_sharded(pipeline, written)
    delivered = {each.delivers for each in exchanges}
    check_work(pipeline, read, written, delivered, all_receive=any(each.by for each in exchanges))
    check_keys(
        pipeline,
        [each for each in read if any(each.name in (query.inputs or (each.name,)) for query in placed)],
        [each for each in written if each.node == SHARED_OUT and each.name not in behind | delivered],
        gathers=any(query.gathers or query.stateful_operators for query in placed),
        brings_key={name for query in placed if query.brings_key for name in query.outputs},
    )
    for query in placed:
        check_scattered(pipeline, query)
        check_watermark(pipeline, query)


def _kept_in_place(pipeline: Pipeline, queries: Sequence[QueryFacts]) -> tuple[str, ...]:
    return tuple(
        query.name
        for query in queries
        if pipeline.nodes > 1 and query.stateful_operators and not query.exchanges
    )


def _exchange_spec(facts: ExchangeFacts, topic: str) -> ExchangeSpec:
    return ExchangeSpec(
        name=facts.name,
        topic=topic,
        topic_id="",
        by=facts.by,
        sender=facts.sender,
        stage=facts.stage,
        delivers=facts.delivers,
    )


def _checkpoint_spec(checkpoint: CheckpointPolicy | None) -> CheckpointSpec:
    return CheckpointSpec("", 0, 0, -1) if checkpoint is None else checkpoint.to_spec()


def fingerprint(
    pipeline: Pipeline,
    queries: Sequence[QueryFacts],
    nodes: int | None = None,
    exchanges: Sequence[ExchangeFacts] = (),
) -> str:
    """SHA-256, in hexadecimal, of the structure (see the top of this file). nodes: in place of the
    pipeline's own."""
    structure: dict[str, Any] = {
        "version": FINGERPRINT_VERSION,
        "nodes": nodes or pipeline.nodes,
        "inputs": [_input_structure(each) for each in pipeline.inputs],
        "outputs": [_output_structure(each) for each in pipeline.outputs],
        "queries": [
            [each.name, list(each.outputs), each.mode, list(each.stateful_operators)] for each in queries
        ],
        "layout": [
            pipeline.layout.max_tasks,
            pipeline.layout.records_per_task,
            pipeline.layout.shuffle_partitions,
        ],
    }
    if exchanges:
        structure["exchanges"] = [
            [
                *(each.name, list(each.by), each.sender, each.stage, each.delivers, each.schema),
                *([list(each.combine)] if each.combine else []),
            ]
            for each in exchanges
        ]
        structure["stages"] = [[each.stage, list(each.exchanges)] for each in queries]
    return hashlib.sha256(json.dumps(structure, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _input_structure(source: Input) -> list[Any]:
    if isinstance(source, AddressedInput):
        return [source.name, *source.structure(), *_pin(source.node)]
    return [
        *(source.name, source.topic, source.value_format, schema_text(source.schema)),
        *(source.on_bad_record, source.dead_letter_topic, source.partitioned_by),
        *([{"tombstones": source.tombstones}] if source.tombstones != "keep" else []),
        *_pin(source.node),
    ]


def _output_structure(sink: KafkaOutput) -> list[Any]:
    return [
        *(sink.name, sink.topic, sink.key, sink.value_format, schema_text(sink.schema), sink.digest),
        *_pin(sink.node),
        *([sink.partitioner] if sink.partitioner != "kafka" else []),
        *([{"subject": sink.subject}] if sink.subject != "topic" else []),
        *([{"deleted_by": sink.deleted_by}] if sink.deleted_by is not None else []),
    ]


def _pin(node: int | None) -> list[int]:
    """Nothing where there is none, so that fingerprints of before are as they were."""
    return [] if node is None else [node]


def _input_spec(source: Input, facts: FoundInput, nodes: int) -> InputSpec:
    pinned = _node(source.node)
    return InputSpec(
        name=source.name,
        topic=facts.address or source.topic,
        topic_id=facts.topic_id,
        start_offsets=facts.start_offsets,
        node_of=tuple(dealt_to(partition, nodes, pinned) for partition in range(len(facts.start_offsets))),
        value_format=source.value_format or "raw",
        on_bad_record=source.bad_records,
        dead_letter_output=source.dead_letter_output,
        partitioned_by=source.partitioned_by or "",
        look_bytes_per_s=source.look_bytes_per_s,
        node=pinned,
        value_schema=schema_text(source.schema),
    )


def _node(pinned: int | None) -> int:
    return SHARED_OUT if pinned is None else pinned


def _output_spec(sink: KafkaOutput, facts: OutputFacts) -> OutputSpec:
    return OutputSpec(
        name=sink.name,
        topic=sink.topic,
        topic_id=facts.topic_id,
        partitions=facts.partitions,
        key=sink.key or "",
        value_format=sink.value_format or "raw",
        digest=sink.digest,
        node=_node(sink.node),
        by_shard=sink.partitioner == "shard",
    )


def _dead_letter_spec(source: Input, topic: str, facts: OutputFacts) -> OutputSpec:
    """What one node reads it alone writes."""
    return OutputSpec(
        *(source.dead_letter_output, topic, facts.topic_id, facts.partitions),
        key="",
        value_format="raw",
        digest="exact",
        node=_node(source.node),
    )
