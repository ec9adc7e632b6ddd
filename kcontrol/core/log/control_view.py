"""What a reader of the control partition knows of one pipeline: the newest record of each key, and who is
newest.

The state is a function of the newest record of each key and of nothing else. That is the whole reason why
folding a compacted log gives what folding the full one gives; tests/property/core holds it to that for any
log and any compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kcontrol.core.log import keys
from kcontrol.core.model import (
    AgentPlacement,
    CheckpointPart,
    CheckpointRequest,
    Claim,
    Command,
    Desired,
    Hold,
    InputDesired,
    LayoutReady,
    LayoutRequest,
    LayoutStatus,
    Logged,
    NodeJoin,
    NodeState,
    PipelineSpec,
    Received,
    Replaying,
    Resume,
    SkipRequest,
    Status,
    Tombstone,
    Written,
)

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class PipelineView:
    """A fold of the control partition. `latest` is never changed in place: each `evolve` makes its own.

    epoch: the offset of the newest claim, or -1.
    incarnations: by node, its newest (offset of the newest join, of those that do not come late).
    placements: by node, the newest by which an agent has started a process of it that has joined.
    skips: by (input, partition), the key of the newest request to pass over offsets; looked up at every
    event.
    wish: the newest entry of the log of a cluster of agents by which another layout was asked for.
    ended: the newest by which its job has ended, and it was to stop.
    """

    pipeline: str
    latest: Mapping[str, Logged]
    epoch: int
    incarnations: Mapping[int, int]
    skips: Mapping[tuple[str, int], str] = field(default_factory=dict)
    placements: Mapping[int, AgentPlacement] = field(default_factory=dict)
    wish: AgentPlacement | None = None
    ended: AgentPlacement | None = None

    @staticmethod
    def empty(pipeline: str) -> PipelineView:
        """Before anything was read."""
        return PipelineView(pipeline, {}, -1, {})

    def _newest(self, kind: type[_R], key: str) -> _R | None:
        logged = self.latest.get(key)
        record = None if logged is None else logged.record
        return record if isinstance(record, kind) else None

    def spec(self) -> PipelineSpec | None:
        """What runs."""
        return self._newest(PipelineSpec, keys.spec_key(self.pipeline))

    def desired(self) -> Desired | None:
        """What the user wants of it, or agents, whose job has ended: whoever has said so last. What agents say counts no more
        once a node has joined that was placed after that end."""
        found = [self.latest.get(f"{self.pipeline}/desired")]
        if self.ended is not None and not any(one > self.ended for one in self.placements.values()):
            found.append(self.latest.get(keys.end_key(self.pipeline, self.ended)))
        newest = max((one for one in found if one is not None), key=lambda one: one.offset, default=None)
        return newest.record if newest is not None and isinstance(newest.record, Desired) else None

    def resume(self) -> Resume | None:
        """The newest request to go on after a halt."""
        return self._newest(Resume, f"{self.pipeline}/resume")

    def checkpoint_request(self) -> CheckpointRequest | None:
        """The newest request for a checkpoint."""
        return self._newest(CheckpointRequest, f"{self.pipeline}/checkpoint/request")

    def input_desired(self, input_name: str) -> InputDesired | None:
        """What the user wants of one input."""
        return self._newest(InputDesired, keys.input_key(self.pipeline, input_name))

    def skip(self, input_name: str, partition: int) -> SkipRequest | None:
        """The newest request to pass over offsets of one partition."""
        key = self.skips.get((input_name, partition))
        return None if key is None else self._newest(SkipRequest, key)

    def hold(self) -> tuple[int, Hold] | None:
        """The newest order of how far steps may read, and its offset."""
        logged = self.latest.get(keys.hold_key(self.pipeline))
        return (
            None if logged is None or not isinstance(logged.record, Hold) else (logged.offset, logged.record)
        )

    def layout_request(self) -> LayoutRequest | None:
        """The newest request to change the layout while the pipeline runs. A coordinator's own counts only while nobody has
        asked for anything that it had not read."""
        asked = self.user_layout_request()
        own = self._newest(LayoutRequest, keys.rebalance_key(self.pipeline))
        known = "" if asked is None else asked.request_id
        return own if own is not None and own.after == known else asked

    def user_layout_request(self) -> LayoutRequest | None:
        """The newest that is of no coordinator. Of agents only what they ask for by the newest entry of their log counts."""
        found = [self.latest.get(keys.layout_key(self.pipeline))]
        if self.wish is not None:
            found.append(self.latest.get(keys.wish_key(self.pipeline, self.wish)))
        newest = max((one for one in found if one is not None), key=lambda one: one.offset, default=None)
        return newest.record if newest is not None and isinstance(newest.record, LayoutRequest) else None

    def layout_ready(self, node: int) -> LayoutReady | None:
        """What whoever is to be this node said of it last."""
        return self._newest(LayoutReady, keys.ready_key(self.pipeline, node))

    def status(self) -> Status | None:
        """What the coordinators last said."""
        return self._newest(Status, f"{self.pipeline}/status")

    def layout_told(self) -> LayoutStatus | None:
        """What was last said of a change of the layout, by whoever was in charge then: one who has been replaced, and does not
        know that yet, gives up what his successor goes on with."""
        logged = self.latest.get(f"{self.pipeline}/status")
        if logged is None or not isinstance(logged.record, Status):
            return None
        is_late = 0 <= self.epoch < logged.offset and logged.record.claim_epoch != self.epoch
        return None if is_late else logged.record.layout

    def hides_status(self) -> bool:
        """Whether the status was written by a coordinator after another one, who has a successor as well, had claimed: it lies
        over what that one had said, if it had said anything."""
        logged = self.latest.get(f"{self.pipeline}/status")
        if logged is None or not isinstance(logged.record, Status):
            return False
        said_by = logged.record.claim_epoch
        claims = (each.offset for each in self.latest.values() if isinstance(each.record, Claim))
        return any(said_by < claim < logged.offset and claim != self.epoch for claim in claims)

    def claim(self) -> Claim | None:
        """The newest claim; its offset is `epoch`."""
        for logged in self.latest.values():
            if logged.offset == self.epoch and isinstance(logged.record, Claim):
                return logged.record
        return None

    def command(self, node: int) -> Command | None:
        """What the newest coordinator last asked of a node."""
        return self._newest(Command, keys.command_key(self.pipeline, self.epoch, node))

    def incarnation(self, node: int) -> int | None:
        """The newest incarnation of a node."""
        return self.incarnations.get(node)

    def is_replaced(self, node: int, incarnation: int, placement: AgentPlacement | None) -> bool:
        """Whether another process is the node instead of the one that joined as this, by this placement:
        because it joined later, or because it was placed later."""
        return self.incarnations.get(node, -1) > incarnation or is_late(placement, self.placements.get(node))

    # --- of a node's newest incarnation; None while it has none, or has said nothing of the kind

    def node_state(self, node: int) -> NodeState | None:
        """Its newest state."""
        incarnation = self.incarnations.get(node)
        return (
            None
            if incarnation is None
            else self._newest(NodeState, keys.state_key(self.pipeline, node, incarnation))
        )

    def received(self, node: int, input_name: str) -> Received | None:
        """How far it has seen one input."""
        incarnation = self.incarnations.get(node)
        return (
            None
            if incarnation is None
            else self._newest(Received, keys.received_key(self.pipeline, node, incarnation, input_name))
        )

    def replaying(self, node: int) -> Replaying | None:
        """Which step it replays, or replayed last."""
        incarnation = self.incarnations.get(node)
        return (
            None
            if incarnation is None
            else self._newest(Replaying, keys.replay_key(self.pipeline, node, incarnation))
        )

    def written(self, node: int) -> Written | None:
        """Its newest report of an attempt, at the last stage."""
        incarnation = self.incarnations.get(node)
        return (
            None
            if incarnation is None
            else self._newest(Written, keys.written_key(self.pipeline, node, incarnation))
        )

    def early(self, node: int, incarnation: int, stage: int) -> Written | None:
        """The newest report of a stage that is not the last by any of a node's incarnations."""
        return self._newest(Written, keys.early_key(self.pipeline, node, incarnation, stage))

    def checkpoint_part(self, node: int) -> CheckpointPart | None:
        """What it has saved, or failed to save, last."""
        incarnation = self.incarnations.get(node)
        return (
            None
            if incarnation is None
            else self._newest(CheckpointPart, keys.part_key(self.pipeline, node, incarnation))
        )


def is_late(placement: AgentPlacement | None, newest: AgentPlacement | None) -> bool:
    """Whether an agent has started a process by a placement that has been overtaken. Who was started by
    somebody else is never late: that was a person's wish."""
    return placement is not None and newest is not None and placement < newest


def evolve(view: PipelineView, logged: Logged) -> PipelineView:
    """The view after one more record, which must be the next in offset order; records of
    other pipelines change nothing."""
    record = logged.record
    if isinstance(record, Tombstone):
        return _forget(view, record.key)
    if record.pipeline != view.pipeline:
        return view
    latest = dict(view.latest)
    latest[keys.key_of(record)] = logged
    epoch, incarnations, skips = view.epoch, view.incarnations, view.skips
    placements, wish, ended = view.placements, view.wish, view.ended
    if isinstance(record, Claim):
        epoch = logged.offset
    elif isinstance(record, NodeJoin):
        incarnations, placements = _joined(view, record, logged.offset)
    elif isinstance(record, SkipRequest):
        skips = {**skips, (record.input, record.partition): keys.key_of(record)}
    elif isinstance(record, LayoutRequest) and record.wish is not None:
        wish = record.wish if wish is None else max(wish, record.wish)
    elif isinstance(record, Desired) and record.wish is not None:
        ended = record.wish if ended is None else max(ended, record.wish)
    return PipelineView(view.pipeline, latest, epoch, incarnations, skips, placements, wish, ended)


_Joined = tuple[Mapping[int, int], Mapping[int, AgentPlacement]]


def _joined(view: PipelineView, join: NodeJoin, offset: int) -> _Joined:
    """Incarnations and placements after one more join."""
    newest = view.placements.get(join.node)
    if is_late(join.placement, newest):
        return view.incarnations, view.placements
    incarnations = {**view.incarnations, join.node: offset}
    if join.placement is None or join.placement == newest:
        return incarnations, view.placements
    return incarnations, {**view.placements, join.node: join.placement}


def _forget(view: PipelineView, key: str) -> PipelineView:
    gone = view.latest.get(key)
    if gone is None:
        return view
    latest = dict(view.latest)
    del latest[key]
    epoch, skips = view.epoch, view.skips
    incarnations, placements, wish, ended = view.incarnations, view.placements, view.wish, view.ended
    if isinstance(gone.record, Claim) and gone.offset == epoch:
        epoch = max((one.offset for one in latest.values() if isinstance(one.record, Claim)), default=-1)
    elif isinstance(gone.record, NodeJoin):
        incarnations, placements = _all_joined(latest.values())
    elif isinstance(gone.record, SkipRequest):
        skips = {place: kept for place, kept in skips.items() if kept != key}
    elif isinstance(gone.record, LayoutRequest) and gone.record.wish == wish is not None:
        wish = max(_wishes(LayoutRequest, latest.values()), default=None)
    elif isinstance(gone.record, Desired) and gone.record.wish == ended is not None:
        ended = max(_wishes(Desired, latest.values()), default=None)
    return PipelineView(view.pipeline, latest, epoch, incarnations, skips, placements, wish, ended)


def _wishes(kind: type[LayoutRequest | Desired], records: Iterable[Logged]) -> list[AgentPlacement]:
    asked = [one.record for one in records if isinstance(one.record, kind)]
    return [one.wish for one in asked if one.wish is not None]


def _all_joined(records: Iterable[Logged]) -> _Joined:
    incarnations: dict[int, int] = {}
    placements: dict[int, AgentPlacement] = {}
    joins = [(one.offset, one.record) for one in records if isinstance(one.record, NodeJoin)]
    for _, join in joins:
        if join.placement is not None and not is_late(join.placement, placements.get(join.node)):
            placements[join.node] = join.placement
    for offset, join in joins:
        if not is_late(join.placement, placements.get(join.node)):
            incarnations[join.node] = max(offset, incarnations.get(join.node, -1))
    return incarnations, placements


def superseded_keys(view: PipelineView) -> tuple[str, ...]:
    """Keys that a new coordinator may forget: what was said by, or to, incarnations and claims that have a
    successor.

    The newest claim, each node's newest join, that of its newest placement, and everything their authors say now
    are never among them, and
    what has a successor has one for ever; so a reader's idea of who is newest can't change, whoever forgets
    and whenever.
    """
    gone = []
    for key, logged in sorted(view.latest.items(), key=lambda item: item[1].offset):
        record = logged.record
        match record:
            case Claim():
                old = logged.offset != view.epoch
            case Command():
                old = record.claim_epoch < view.epoch
            case NodeJoin():
                newest = view.placements.get(record.node)
                tells = record.placement is not None and record.placement == newest
                old = logged.offset != view.incarnations.get(record.node) and not tells
            case NodeState() | Received() | Replaying() | Written() | CheckpointPart():
                old = record.incarnation < view.incarnations.get(record.node, -1)
            case LayoutRequest():
                old = record.wish is not None and record.wish != view.wish
            case Desired():
                old = record.wish is not None and record.wish != view.ended
            case _:
                old = False
        if old:
            gone.append(key)
    return tuple(gone)
