"""What happens when a pipeline is submitted again under a name that has a history: the same,
a declared change, or an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import SHARED_OUT, InputSpec, OutputSpec, PipelineSpec
from kcontrol.core.step.added_partitions import TAKES_UP_ADDED
from kcontrol.core.step.division import of_size
from kcontrol.core.step.offsets import ADDED_BEGINS_AT
from kcontrol.errors import ConfigurationError, InputGoneError, SpecChangedError


def succeed(spec: PipelineSpec, earlier: PipelineSpec | None, of_earlier_size: str = "") -> PipelineSpec:
    """The spec to log when `earlier` is the one in the log: `spec`, but beginning where the earlier one
    began.

    of_earlier_size: the fingerprint of the same definition with as many nodes as `earlier` has; a pipeline
    without state may change their number without saying so (`check_resize`).

    Raises SpecChangedError if the structure has changed and `spec` does not say that it is compatible, or
    what one node has to itself has changed, which no boundary tells of the steps before;
    InputGoneError if an input's topic is not the one that the earlier steps have read, and ConfigurationError
    if it has more partitions since, and the state of its keys is on several nodes. The same goes for the topic of an
    exchange that was recreated.
    """
    if earlier is None:
        return spec
    if earlier.fingerprint not in (spec.fingerprint, of_earlier_size, *spec.compatible_with):
        raise SpecChangedError(
            f"pipeline {spec.pipeline!r} has changed: its log was made with the definition "
            f"{earlier.fingerprint}, this one is {spec.fingerprint} ({_difference(spec, earlier)}); give it "
            "another name, undo the change, or, if its state and log still fit, add "
            f"compatible_with=[{earlier.fingerprint!r}] to the Pipeline"
        )
    _refuse_moved(spec, earlier)
    _refuse_recreated(spec, earlier)
    before = {each.name: each for each in earlier.inputs}
    history = dict.fromkeys((*spec.compatible_with, *earlier.compatible_with, earlier.fingerprint))
    return replace(
        spec,
        compatible_with=tuple(each for each in history if each != spec.fingerprint),
        inputs=tuple(_continued(spec, each, before.get(each.name)) for each in spec.inputs),
    )


def check_resize(
    spec: PipelineSpec, earlier: PipelineSpec, steps: StepsView, between: Sequence[str] = ()
) -> None:
    """Raise SpecChangedError if the pipeline can't go on with as many nodes as `spec` has. steps: what the log of steps
    says; a pipeline whose nodes share state or send each other rows has so many as its layout, and so has any whose layout
    was ever changed: who reads which partition is in its log since. between: exchanges of `spec` whose senders keep state."""
    divided = spec.divides or bool(earlier.exchanges) or steps.assignment is not None
    if not divided or steps.step == 0:
        return
    before = steps.assignment.nodes if steps.assignment is not None else earlier.nodes
    if spec.nodes != before:
        raise SpecChangedError(
            f"pipeline {spec.pipeline!r} has a layout of {before} nodes, over which its state and rows are divided, and step "
            f"{steps.step} in its log; this is nodes = {spec.nodes}. Go on with nodes = {before}, or change its layout, while "
            f"it runs or when it is stopped: kcontrol layout {spec.pipeline} --nodes {spec.nodes}"
        )
    _refuse_other_shards(spec, earlier, steps)
    if spec.nodes != earlier.nodes:
        _refuse_otherwise_divided(spec, earlier, between)


def _refuse_other_shards(spec: PipelineSpec, earlier: PipelineSpec, steps: StepsView) -> None:
    changed, now = steps.assignment, spec.layout.shuffle_partitions
    before = earlier.layout.shuffle_partitions if changed is None else len(changed.owners)
    if now != before:
        raise SpecChangedError(
            f"pipeline {spec.pipeline!r} has a layout of {before} shards, into which its state and rows are divided, and step "
            f"{steps.step} in its log; this is Layout(shuffle_partitions={now}). Go on with "
            f"Layout(shuffle_partitions={before}), or stop it and change its layout: kcontrol layout {spec.pipeline} --shards "
            f"{now}"
        )


def _refuse_otherwise_divided(spec: PipelineSpec, earlier: PipelineSpec, between: Sequence[str]) -> None:
    """From one node to several and back its queries are others, so that fingerprints say nothing."""
    if 1 not in (spec.nodes, earlier.nodes):
        return
    was, now = of_size(earlier, 1), of_size(spec, 1)
    if _queries(was) != _queries(now):
        raise SpecChangedError(
            f"pipeline {spec.pipeline!r} has changed together with its number of nodes ({_difference(now, was)}): start it "
            f"with nodes = {spec.nodes} as it was, and change it afterwards"
        )
    shared = [each for each in spec.watermarks if earlier.nodes == 1 and len(each.delays_ms) > 1]
    if shared:
        raise SpecChangedError(
            f"pipeline {spec.pipeline!r}: query {shared[0].query!r} has several watermarks, which one node alone kept: "
            "several nodes can't go on from it yet. Go back to one node: kcontrol layout "
            f"{spec.pipeline} --nodes 1, and start it with nodes = 1"
        )
    if between and earlier.nodes == 1:
        raise SpecChangedError(
            f"pipeline {spec.pipeline!r}: what is sent through exchange {between[0]!r} comes from a query that keeps state, "
            "which on one node is one query with what is behind the exchange: several nodes can't be given the state of each "
            f"yet. Go back to one node: kcontrol layout {spec.pipeline} --nodes 1, and start it with nodes = 1"
        )


def _queries(spec: PipelineSpec) -> object:
    return (
        sorted(spec.queries),
        [(each.name, each.topic, each.value_format) for each in spec.inputs],
        [(each.name, each.topic, each.key, each.value_format) for each in spec.outputs],
        spec.stateful,
        # How many shards there are, the log says.
        replace(spec.layout, shuffle_partitions=0),
    )


def refuse_shared_outputs(spec: PipelineSpec, others: Iterable[PipelineSpec]) -> None:
    """Raise ConfigurationError if another pipeline writes to a topic of this one: their
    steps could not be told apart."""
    mine = {each.topic: each.name for each in spec.outputs}
    for other in others:
        for each in other.outputs:
            if other.pipeline != spec.pipeline and each.topic in mine:
                raise ConfigurationError(
                    f"pipeline {spec.pipeline!r}, output {mine[each.topic]!r}: topic {each.topic!r} belongs "
                    f"to output {each.name!r} of pipeline {other.pipeline!r}; give each pipeline topics of "
                    "its own"
                )


def _refuse_moved(spec: PipelineSpec, earlier: PipelineSpec) -> None:
    """A step that is run again is dealt out by the newest spec."""
    pairs: list[tuple[str, Sequence[InputSpec | OutputSpec], Sequence[InputSpec | OutputSpec]]] = [
        ("input", spec.inputs, earlier.inputs),
        ("output", spec.outputs, earlier.outputs),
    ]
    for what, now, then in pairs:
        before = {each.name: each.node for each in then}
        for each in now:
            was = before.get(each.name, each.node)
            if was != each.node:
                raise SpecChangedError(
                    f"pipeline {spec.pipeline!r}: {what} {each.name!r} was {_whose(was)}, and is "
                    f"{_whose(each.node)} now; its steps could not be run again as they were. Undo the change, "
                    "or give the pipeline another name"
                )


def _refuse_recreated(spec: PipelineSpec, earlier: PipelineSpec) -> None:
    before = {each.name: each.topic_id for each in earlier.exchanges}
    for each in spec.exchanges:
        was = before.get(each.name, each.topic_id)
        if was != each.topic_id:
            raise InputGoneError(
                f"pipeline {spec.pipeline!r}, exchange {each.name!r}: topic {each.topic!r} was recreated (its id was "
                f"{was}, now it is {each.topic_id}), so what its steps exchanged is gone; give the pipeline another name"
            )


def _whose(node: int) -> str:
    return "shared out among the nodes" if node == SHARED_OUT else f"node {node}'s alone"


def _continued(spec: PipelineSpec, source: InputSpec, before: InputSpec | None) -> InputSpec:
    pipeline = spec.pipeline
    if before is None or before.topic != source.topic:
        return source
    if before.topic_id != source.topic_id:
        raise InputGoneError(
            f"pipeline {pipeline!r}, input {source.name!r}: topic {source.topic!r} was recreated (its id "
            f"was {before.topic_id}, now it is {source.topic_id}), so the offsets in the log mean nothing "
            "any more; give the pipeline another name"
        )
    added = len(source.start_offsets) - len(before.start_offsets)
    placed = source.node == SHARED_OUT and source.partitioned_by != ""
    if added > 0 and spec.stateful and spec.nodes > 1 and placed:
        raise ConfigurationError(
            f"pipeline {pipeline!r}, input {source.name!r}: topic {source.topic!r} has "
            f"{len(source.start_offsets)} partitions, the pipeline was made with "
            f"{len(before.start_offsets)}; on {spec.nodes} nodes keys would come to other nodes than their "
            f"state is on; give the pipeline another name, so that it reads its inputs anew: {TAKES_UP_ADDED}"
        )
    return replace(source, start_offsets=before.start_offsets + (ADDED_BEGINS_AT,) * added)


def _difference(spec: PipelineSpec, earlier: PipelineSpec) -> str:
    """What a person can see of it; schemas, stateful operators and other details are only in the
    fingerprint."""
    views: dict[str, Callable[[PipelineSpec], object]] = {
        "nodes": lambda each: each.nodes,
        "queries": lambda each: ", ".join(each.queries),
        "inputs": lambda each: ", ".join(f"{i.name} from {i.topic} as {i.value_format}" for i in each.inputs),
        "outputs": lambda each: ", ".join(f"{o.name} to {o.topic} as {o.value_format}" for o in each.outputs),
        "exchanges": lambda each: (
            ", ".join(f"{e.name} by {', '.join(e.by)}" for e in each.exchanges) or "none"
        ),
        "layout": lambda each: each.layout,
    }
    changed = [
        f"{what} was {view(earlier)}, is {view(spec)}"
        for what, view in views.items()
        if view(spec) != view(earlier)
    ]
    return "; ".join(changed) or "in a schema, an output mode or a stateful operator"
