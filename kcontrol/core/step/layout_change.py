"""From one number of nodes to another: who owns, reads and writes what from then on, with the fewest moves, and what a
definition is by an assignment.

Nodes are numbered from 0 without a gap. When one in the middle is left out, the one with the highest number takes its
place, with all that it has: nothing else gets another number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kcontrol.core.model import (
    SHARED_OUT,
    Assignment,
    InputSpec,
    LayoutRequest,
    OutputSpec,
    PartitionNodes,
    PipelineSpec,
    SavedPart,
)
from kcontrol.core.step.assignment import (
    Owners,
    ShardMove,
    can_reshard,
    moves_between,
    owners_of,
    rebalanced,
    resharded,
)
from kcontrol.core.step.division import dealt_out, of_size
from kcontrol.core.step.layout import writer_of
from kcontrol.core.step.placed import (
    classes_of,
    rebalanced_classes,
    refused_cut,
    refused_number,
    refused_table,
    repeated,
)

MOST_SHARDS = 10_000
"""As many as a definition may ask for."""


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """What becomes of a layout. moves: of shards, by the numbers that nodes have now; where there are more shards or fewer
    then, of the finer ones of both. renumbered: (number now, number then) of the node that takes the place of the one that
    is left out. shards_before: how many there are now."""

    before: int
    nodes: int
    owners: Owners
    inputs: tuple[PartitionNodes, ...]
    outputs: tuple[PartitionNodes, ...]
    moves: tuple[ShardMove, ...]
    moved_inputs: int
    moved_outputs: int
    renumbered: tuple[int, int] | None = None
    shards_before: int = 0

    @property
    def finer(self) -> int:
        """How many shards `moves` counts by."""
        return max(self.shards_before, len(self.owners))

    @property
    def cuts(self) -> bool:
        """Whether state is cut into other shards."""
        return self.shards_before not in (0, len(self.owners))

    def recorded(
        self,
        pipeline: str,
        number: int,
        step: int,
        *,
        request_id: str = "",
        moved_bytes: int = -1,
        now_ms: int = 0,
        parts: tuple[SavedPart, ...] = (),
        live: bool = False,
        replaced: tuple[int, ...] = (),
    ) -> Assignment:
        """As the record in the log of steps, made over a step; see `Assignment`."""
        return Assignment(
            *(pipeline, number, step, self.nodes, self.owners, self.inputs, self.outputs),
            *(len(self.moves), moved_bytes, request_id, now_ms),
            parts=parts,
            live=live,
            replaced=replaced,
        )


def changed(
    spec: PipelineSpec,
    nodes: int,
    without: int | None = None,
    shards: int | None = None,
    owners: Owners = (),
) -> LayoutChange:
    """The layout of so many nodes that comes out of the one in force, which `spec` is of.

    without: the node that is left out; None: those with the highest numbers, if there are to be fewer. shards: how many
    there are to be, None: as many as there are. owners: who is to own them, (): what moves least. `refused_change` says first
    whether it can be done.
    """
    gone = set(range(nodes, spec.nodes)) if without is None else {without}
    members = [node for node in range(max(nodes, spec.nodes)) if node not in gone]
    last = max(members)
    number = {node: node for node in members} | (
        {last: without} if without is not None and without < last else {}
    )

    def renamed(table: Sequence[int]) -> tuple[int, ...]:
        return tuple(number[node] for node in table)

    before = owners_of(spec)
    classes = classes_of(spec)
    owners = owners or _owned(before if shards is None else resharded(before, shards), classes, members)
    inputs = {each.name: _dealt(each.node, each.node_of, members) for each in spec.inputs}
    written = {each.name: _written(spec, each) for each in spec.outputs}
    outputs = {
        each.name: repeated(owners[:classes], each.partitions)
        if classes and each.by_shard
        else _followed(spec, each, inputs) or _dealt(each.node, written[each.name], members)
        for each in spec.outputs
    }
    return LayoutChange(
        before=spec.nodes,
        nodes=nodes,
        owners=renamed(owners),
        inputs=tuple(PartitionNodes(name, renamed(table)) for name, table in inputs.items()),
        outputs=tuple(PartitionNodes(name, renamed(table)) for name, table in outputs.items()),
        moves=moves_between(before, owners),
        moved_inputs=_different({each.name: each.node_of for each in spec.inputs}, inputs),
        moved_outputs=_different(written, outputs),
        renumbered=None if number[last] == last else (last, number[last]),
        shards_before=len(before),
    )


def _owned(owners: Owners, classes: int, members: Sequence[int]) -> Owners:
    return rebalanced_classes(classes, owners, members) if classes else rebalanced(owners, members)


def left_out(request: LayoutRequest) -> int | None:
    """The node that another one takes the number of, as `changed` wants it."""
    return None if request.without < 0 else request.without


def refused_shards(spec: PipelineSpec, shards: int) -> str:
    """Why the layout that `spec` is of can't have so many shards, with its nodes, or ''."""
    where, now = f"pipeline {spec.pipeline!r}", spec.layout.shuffle_partitions
    if shards == now:
        return f"{where} has {now} shards already"
    if shards > MOST_SHARDS:
        return f"{where} can have at most {MOST_SHARDS} shards"
    if not can_reshard(now, shards):
        return (
            f"{where} has {now} shards, which can be doubled and halved, again and again, but do not become {shards} by that: "
            f"ask for {2 * now}{f' or {now // 2}' if now % 2 == 0 else ''}, or for more halving or doubling"
        )
    if shards < spec.nodes:
        return (
            f"{where} has {spec.nodes} nodes, some of which would own none of {shards} shards: ask for at least "
            f"{spec.nodes} shards, or for fewer nodes first"
        )
    if spec.nodes > 1 and spec.kept_in_place:
        named = ", ".join(map(repr, spec.kept_in_place))
        return (
            f"{where}: query {named} keeps state of the partitions that each node reads, not behind an exchange: it can't be "
            f"cut into other shards on several nodes. Go on with {now} shards"
        )
    return refused_cut(spec, shards)


def refused_change(
    spec: PipelineSpec,
    submitted: PipelineSpec,
    nodes: int,
    without: int | None = None,
    *,
    live: bool = False,
) -> str:
    """Why the layout that `spec` is of can't become one of so many nodes, or ''. submitted: the definition in the log, which
    may be of a layout before it. without: see `changed`. live: while the pipeline runs."""
    where = f"pipeline {spec.pipeline!r}"
    shards = spec.layout.shuffle_partitions
    if without is not None and not 0 <= without < spec.nodes:
        return f"{where} has no node {without}: they are numbered from 0 to {spec.nodes - 1}"
    if nodes < 1:
        return f"{where} needs at least one node"
    if nodes == spec.nodes:
        return f"{where} has nodes = {nodes} already"
    if submitted.kept_in_place:
        named = ", ".join(map(repr, submitted.kept_in_place))
        return (
            f"{where}: query {named} keeps state of the partitions that each node reads, not behind an exchange: it can't be "
            f"moved. Bring its rows together with kcontrol.exchange() and give the pipeline another name, or go on with nodes "
            f"= {spec.nodes}"
        )
    if not live and not spec.assignment and submitted.nodes > 1 and not submitted.divides:
        return (
            f"{where} keeps no state and exchanges nothing between its nodes, so nothing is to be moved: give it nodes = "
            f"{nodes} in its definition, and start it again"
        )
    if nodes > shards and submitted.divides:
        return (
            f"{where} has {shards} shards (Layout.shuffle_partitions), so some of {nodes} nodes would own none: ask for at "
            f"most {shards} nodes"
        )
    if refused := refused_number(spec, nodes):
        return refused
    return _refused_partitions(spec, submitted, nodes, without)


def refused_live(
    spec: PipelineSpec,
    nodes: int,
    step: int,
    replaced: Sequence[int] = (),
    without: int | None = None,
    owners: Owners = (),
) -> str:
    """Why a pipeline that runs by `spec`, and has made so many steps, can't go on with so many nodes, or ''. replaced: nodes
    that are to be other processes, in place of another number of nodes. without: the one of them that is left out, and takes
    the place of the one with the highest number. owners: who is to own which shard, in place of all that."""
    where = f"pipeline {spec.pipeline!r}"
    if step == 0:
        return (
            f"{where} has no committed step yet, so nothing is to be moved: stop it, and start it with as many nodes as you "
            "like"
        )
    if spec.stateful and not spec.checkpoint.location:
        return (
            f"{where} keeps state and has no place for checkpoints, from which new nodes could take it: give its definition "
            "checkpoint=kcontrol.Checkpoint(LOCATION)"
        )
    if owners:
        return refused_owners(spec, owners)
    if without is not None:
        if nodes != spec.nodes - 1 or tuple(replaced) != (without,) or without == nodes:
            return f"{where} has {spec.nodes} nodes: one of them is left out at a time, whose number another process takes"
        return refused_change(spec, spec, nodes, without, live=True)
    if not replaced:
        return refused_change(spec, spec, nodes, live=True)
    if nodes != spec.nodes or not {*replaced} <= set(range(spec.nodes)):
        return f"{where} has the nodes 0 to {spec.nodes - 1}, which are as many before and after some of them are replaced"
    return ""


def refused_owners(spec: PipelineSpec, owners: Owners) -> str:
    """Why the shards of the layout that `spec` is of can't become these nodes', or ''."""
    where, now = f"pipeline {spec.pipeline!r}", owners_of(spec)
    if spec.kept_in_place:
        named = ", ".join(map(repr, spec.kept_in_place))
        return (
            f"{where}: query {named} keeps state of the partitions that each node reads, not behind an exchange: it can't be "
            "moved"
        )
    if len(owners) != len(now) or {*owners} != set(range(spec.nodes)):
        return f"{where} has {len(now)} shards and nodes 0 to {spec.nodes - 1}, each of which has to own one of them"
    if owners == now:
        return f"{where} has its shards divided like that already"
    return refused_table(spec, owners)


def _refused_partitions(spec: PipelineSpec, submitted: PipelineSpec, nodes: int, without: int | None) -> str:
    where = f"pipeline {spec.pipeline!r}"
    staying = set(range(min(nodes, spec.nodes) if without is None else spec.nodes - 1)) - {without}
    pinned: list[tuple[str, InputSpec | OutputSpec]] = [
        *(("input", each) for each in spec.inputs),
        *(("output", each) for each in spec.outputs),
    ]
    for what, each in pinned:
        if each.node != SHARED_OUT and each.node not in staying:
            return (
                f"{where}: {what} {each.name!r} is node {each.node}'s alone (node=), which there would not be any more, or "
                "not by this number: leave out another node"
            )
    shared = [each for each in spec.inputs if each.node == SHARED_OUT]
    most = max((len(each.node_of) for each in shared), default=0)
    reading = {each.node for each in spec.inputs if each.node != SHARED_OUT}
    # By an exchange rows come to every node, also to one that reads no input.
    all_receive = any(each.by for each in submitted.exchanges)
    if nodes > max(most, len(reading)) and not all_receive:
        return f"{where}: its inputs have at most {most} partitions, so some of {nodes} nodes would have nothing to read"
    brought = {each.delivers for each in submitted.exchanges}
    for output in spec.outputs:
        if (
            spec.nodes > 1
            and output.node == SHARED_OUT
            and output.name not in brought
            and output.partitions < nodes
        ):
            return (
                f"{where}: topic {output.topic!r} of output {output.name!r} has {output.partitions} partitions, so some of "
                f"{nodes} nodes could write nothing to it: give it more, and start the pipeline once with them"
            )
    return ""


def _dealt(pinned: int, table: Sequence[int], members: Sequence[int]) -> tuple[int, ...]:
    return tuple(table) if pinned != SHARED_OUT else rebalanced(tuple(table), members)


def _written(spec: PipelineSpec, output: OutputSpec) -> tuple[int, ...]:
    return writer_of(spec, output, output.partitions)


def _followed(
    spec: PipelineSpec, output: OutputSpec, inputs: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...] | None:
    """Who reads an input with as many partitions, whose writers an output goes by."""
    if output.node != SHARED_OUT:
        return None
    return next(
        (
            inputs[each.name]
            for each in spec.inputs
            if each.node == SHARED_OUT and len(each.node_of) == output.partitions
        ),
        None,
    )


def _different(before: Mapping[str, Sequence[int]], after: Mapping[str, Sequence[int]]) -> int:
    return sum(was != now for name in before for was, now in zip(before[name], after[name], strict=True))


# --- a definition by an assignment --------------------------------------------------------------------------


def assigned(spec: PipelineSpec, assignment: Assignment | None) -> PipelineSpec:
    """A definition of as many nodes as the assignment, with its tables; None: as it is before the layout was changed. What
    came since (partitions that were added) is dealt out in turn. It has a fingerprint of its own, so that everybody who
    goes by another assignment goes by another definition."""
    if assignment is None:
        return spec
    read = {each.name: each.nodes for each in assignment.inputs}
    written = {each.name: each.nodes for each in assignment.outputs}
    return replace(
        spec,
        fingerprint=assigned_fingerprint(spec.fingerprint, assignment.number),
        assignment=assignment.number,
        owners=assignment.owners,
        layout=replace(spec.layout, shuffle_partitions=len(assignment.owners)),
        inputs=tuple(
            replace(each, node_of=_over(read.get(each.name, ()), each.node_of)) for each in spec.inputs
        ),
        outputs=tuple(replace(each, node_of=written.get(each.name, ())) for each in spec.outputs),
    )


def assigned_fingerprint(fingerprint: str, number: int) -> str:
    """Of the definition with this fingerprint by an assignment; 0: before the layout was changed."""
    return hashlib.sha256(f"{fingerprint} {number}".encode()).hexdigest() if number else fingerprint


def as_made(
    spec: PipelineSpec, nodes: int, assignment: Assignment | None, shards: int | None = None
) -> PipelineSpec:
    """The pipeline as it was when a step was made by so many nodes and by an assignment. shards: how many there were; None:
    as many as that or, before there was one, the definition says."""
    if spec.assignment == (0 if assignment is None else assignment.number):
        return of_size(spec, nodes)
    outputs = tuple(replace(each, node_of=()) for each in spec.outputs)
    layout = spec.layout if shards is None else replace(spec.layout, shuffle_partitions=shards)
    plain = replace(spec, assignment=0, owners=(), outputs=outputs, layout=layout)
    return assigned(dealt_out(plain, nodes), assignment)


def _over(table: Sequence[int], dealt: Sequence[int]) -> tuple[int, ...]:
    return (*table[: len(dealt)], *dealt[len(table) :])
