"""From a pipeline's definition to its spec in the control topic: looked up, checked
against history, and written once.

The spec is what coordinator and nodes work from. It is written when the pipeline is first started and when
something in it has changed that may change; where step 1 begins is decided the first time and kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.files.facts import files_id
from kcontrol.adapters.kafka.admin.cluster import CONTROL_PARTITIONS, check_cluster, ensure_topics
from kcontrol.adapters.kafka.admin.fitting import compaction_warnings
from kcontrol.adapters.kafka.admin.topics import TopicAdmin, TopicState
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.exchange.topic import ensure_exchange_topic
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.apps.leftovers import committed, refuse_leftovers
from kcontrol.apps.old_nodes import refuse_while_running
from kcontrol.apps.specs import all_specs
from kcontrol.core.log.definitions import definitions
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Assignment, ExchangeSpec, InputSpec, PipelineSpec
from kcontrol.core.step.layout_change import assigned, assigned_fingerprint
from kcontrol.definition.addressed import AddressedInput
from kcontrol.definition.exchanges import ExchangeFacts
from kcontrol.definition.parts import KafkaInput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.definition.resolve import (
    FoundInput,
    OutputFacts,
    QueryFacts,
    build_spec,
    fingerprint,
    start_offsets,
)
from kcontrol.definition.succession import check_resize, refuse_shared_outputs, succeed
from kcontrol.definition.topic_rules import check_exchange_topics, check_own_topics
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.files import files_of, is_files

_log = logging.getLogger(__name__)

_READ, _WRITE = (Operation.READ,), (Operation.WRITE,)


async def submit(
    settings: ClusterSettings,
    pipeline: Pipeline,
    queries: Sequence[QueryFacts],
    exchanges: Sequence[ExchangeFacts] = (),
    *,
    output_partitions: int | None = None,
    control_partitions: int = CONTROL_PARTITIONS,
) -> PipelineSpec:
    """The spec that the pipeline runs by, which is in the control topic afterwards. As `resolve`
    otherwise."""
    spec, earlier = await _resolved(
        settings, pipeline, queries, exchanges, output_partitions, control_partitions
    )
    if spec != earlier:
        log = await KafkaControlLog.open(settings, pipeline.name)
        try:
            await log.append([spec])
        finally:
            await log.close()
    return spec


async def resolve(
    settings: ClusterSettings,
    pipeline: Pipeline,
    queries: Sequence[QueryFacts],
    exchanges: Sequence[ExchangeFacts] = (),
    *,
    output_partitions: int | None = None,
    control_partitions: int = CONTROL_PARTITIONS,
    layout: Assignment | None = None,
) -> PipelineSpec:
    """The spec that the pipeline would run by. Makes the topics that are missing, and submits nothing.

    queries, exchanges: what Spark says of them. output_partitions: create missing output topics with so many partitions;
    None: a missing one is an error. layout: by which it would, a change that is not in the log yet of a pipeline that
    runs; None: by the one that is.

    Raises ClusterError, TopicError, ConfigurationError (nodes of another size of the pipeline are at work,
    among others), SpecChangedError (the log was made with another definition) or InputGoneError (an input's
    topic was recreated).
    """
    found = await _resolved(
        settings, pipeline, queries, exchanges, output_partitions, control_partitions, layout
    )
    return found[0]


async def _resolved(
    settings: ClusterSettings,
    pipeline: Pipeline,
    queries: Sequence[QueryFacts],
    exchanges: Sequence[ExchangeFacts],
    output_partitions: int | None,
    control_partitions: int,
    layout: Assignment | None = None,
) -> tuple[PipelineSpec, PipelineSpec | None]:
    """With the one that is in the log."""
    names = settings.names()
    check_own_topics(pipeline, names)
    check_exchange_topics(pipeline, names, [each.name for each in exchanges])
    await check_cluster(settings)
    await asyncio.to_thread(ensure_topics, settings, pipeline.name, control_partitions)
    specs = await all_specs(settings)
    earlier = await _earlier(settings, pipeline.name)
    if earlier is None:
        await refuse_leftovers(settings, pipeline.name)
    elif earlier.nodes != pipeline.nodes and not await _is_relaid(settings, earlier, layout):
        await refuse_while_running(settings, pipeline.name, earlier.nodes, pipeline.nodes)
        specs = await all_specs(settings)
        earlier = await _earlier(settings, pipeline.name)
    inputs, outputs = await asyncio.to_thread(
        _facts, TopicAdmin(settings), pipeline, earlier, output_partitions
    )
    topics = {each.name: names.exchange_topic(pipeline.name, each.name) for each in exchanges}
    spec = build_spec(pipeline, inputs, outputs, queries, exchanges, topics)
    of_earlier_size, steps = "", StepsView(pipeline.name)
    if earlier is not None and (
        earlier.nodes != spec.nodes or spec.divides or earlier.divides or earlier.assignment
    ):
        steps = await committed(settings, pipeline.name, earlier.assignment)
        if layout is not None:
            steps = replace(steps, assignments=(*steps.assignments, layout))
    shards = pipeline.layout.shuffle_partitions
    if earlier is not None and (
        earlier.nodes != spec.nodes
        or earlier.assignment != _number(steps)
        or earlier.layout.shuffle_partitions != shards
    ):
        between_states = [each.sends for each in queries if each.sends and each.stateful_operators]
        check_resize(spec, earlier, steps, between_states)
        if steps.assignment is not None:
            shards = earlier.layout.shuffle_partitions
        # The queries of a pipeline that exchanges rows are others with one node: what can be compared is, with a step.
        both = spec.exchanges and earlier.exchanges
        then = pipeline.with_shards(shards)
        as_then = fingerprint(then, queries, earlier.nodes, exchanges if both else ())
        others = bool(spec.exchanges) != bool(earlier.exchanges)
        of_earlier_size = earlier.fingerprint if others else assigned_fingerprint(as_then, earlier.assignment)
    spec = assigned(spec, steps.assignment)
    # Topics are made for a pipeline that is right alone.
    spec = replace(spec, exchanges=await asyncio.to_thread(_with_topics, settings, spec))
    spec = succeed(spec, earlier, of_earlier_size)
    refuse_shared_outputs(spec, specs.values())
    return spec, earlier


async def _is_relaid(settings: ClusterSettings, earlier: PipelineSpec, layout: Assignment | None) -> bool:
    """Whether the layout is changed while the pipeline runs: its nodes go on by that, so that nobody need have ended."""
    if layout is None:
        layout = (await committed(settings, earlier.pipeline)).assignment
    return layout is not None and layout.live and layout.number > earlier.assignment


async def _earlier(settings: ClusterSettings, pipeline: str) -> PipelineSpec | None:
    """The newest definition that was acknowledged. Missed, it would be replaced without being compared
    with."""
    log = await KafkaControlLog.open(settings, pipeline)
    try:
        entries = await log.read_to_barrier(pipeline)
    finally:
        await log.close()
    return definitions(entries).get(pipeline)


def _facts(
    admin: TopicAdmin, pipeline: Pipeline, earlier: PipelineSpec | None, output_partitions: int | None
) -> tuple[Mapping[str, FoundInput], Mapping[str, OutputFacts]]:
    known = {each.name: each for each in earlier.inputs} if earlier is not None else {}
    before = {name: each.topic for name, each in known.items()}
    states = {
        each.name: admin.get(each.topic, f"pipeline {pipeline.name!r}, input {each.name!r}", _READ)
        for each in pipeline.inputs
        if not isinstance(each, AddressedInput)
    }
    for sentence in compaction_warnings([*states.values()], _replay_window_ms(pipeline)):
        _log.warning("Pipeline %r: %s", pipeline.name, sentence)
    inputs = {
        source.name: _addressed_facts(source, known.get(source.name), alone=pipeline.nodes == 1)
        if isinstance(source, AddressedInput)
        else _input_facts(
            admin, source, states[source.name], continued=before.get(source.name) == source.topic
        )
        for source in pipeline.inputs
    }
    targets = {each.name: each.topic for each in pipeline.outputs}
    targets |= {
        each.dead_letter_output: each.dead_letter_topic for each in pipeline.inputs if each.dead_letter_topic
    }
    outputs = {}
    for name, topic in targets.items():
        what = f"pipeline {pipeline.name!r}, output {name!r}"
        found = _output_state(admin, what, topic, output_partitions)
        outputs[name] = OutputFacts(found.topic_id, found.partitions)
    return inputs, outputs


def _number(steps: StepsView) -> int:
    return 0 if steps.assignment is None else steps.assignment.number


def _with_topics(settings: ClusterSettings, spec: PipelineSpec) -> tuple[ExchangeSpec, ...]:
    if not spec.exchanges:
        return ()
    admin, slots = TopicAdmin(settings), spec.nodes * spec.layout.max_tasks
    return tuple(
        replace(
            each, topic_id=ensure_exchange_topic(admin, settings, spec.pipeline, each.name, slots).topic_id
        )
        for each in spec.exchanges
    )


def _replay_window_ms(pipeline: Pipeline) -> int | None:
    """A replay begins at the oldest checkpoint that is kept; one more is under way meanwhile."""
    checkpoint = pipeline.checkpoint
    return None if checkpoint is None else checkpoint.every_ms * (checkpoint.keep + 1)


def _input_facts(admin: TopicAdmin, source: KafkaInput, state: TopicState, *, continued: bool) -> FoundInput:
    offsets = admin.offsets(source.topic, state.partitions)
    # An input with a history begins where it began then: what the setting says now may long have expired.
    start = offsets.earliest if continued else start_offsets(source, offsets.earliest, offsets.latest)
    return FoundInput(state.topic_id, start)


def _addressed_facts(source: AddressedInput, before: InputSpec | None, *, alone: bool) -> FoundInput:
    """alone: there is no other node, on whose host files may be."""
    address, start_offsets = source.address("" if before is None else before.topic, SystemClock().now_ms())
    if not is_files(address) or not (alone or files_of(address).is_url):
        return FoundInput(source.log_id, start_offsets, address)
    known = before.topic_id if before is not None and before.topic == address else ""
    return FoundInput(files_id(source.name, address, known), start_offsets, address)


def _output_state(admin: TopicAdmin, what: str, topic: str, partitions: int | None) -> TopicState:
    if partitions is None:
        return admin.get(topic, what, _WRITE)
    return admin.find(topic, _WRITE) or admin.create(topic, partitions)
