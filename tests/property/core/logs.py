"""Random control logs, small enough in names that keys collide, and random compactions of them."""

from __future__ import annotations

from hypothesis import strategies as st

from kcontrol.core.log.keys import key_of
from kcontrol.core.model import (
    AgentPlacement,
    CheckpointPart,
    CheckpointRequest,
    Claim,
    Command,
    CommandKind,
    ControlRecord,
    Desired,
    DesiredMode,
    Hold,
    InputDesired,
    InputSchema,
    LayoutRequest,
    Logged,
    NodeJoin,
    NodePhase,
    NodeState,
    OutputSchema,
    PipelinePhase,
    Received,
    Replaying,
    Resume,
    SkipRequest,
    Status,
    Tombstone,
)

_SMALL = st.integers(0, 3)
_PIPELINE = st.sampled_from(["a", "a", "a", "b"])
_UUID = st.sampled_from("uvw")
_PLACEMENTS = {"u": None, "v": AgentPlacement(1, 1), "w": AgentPlacement(1, 2), "x": AgentPlacement(2, 0)}
"""By the name of an incarnation: an incarnation has one placement."""


def _join(pipeline: str, node: int, name: str, process_id: int) -> NodeJoin:
    return NodeJoin(pipeline, node, name, "h", process_id, placement=_PLACEMENTS[name])


def _state(pipeline: str, node: int, incarnation: int, step: int) -> NodeState:
    return NodeState(pipeline, node, incarnation, NodePhase.OPEN, step, None, 0, 0, 0, (), "", 0, 0)


def _command(pipeline: str, epoch: int, serial: int, node: int) -> Command:
    return Command(pipeline, epoch, serial, node, 0, CommandKind.PAUSE, 0, None)


def _part(pipeline: str, node: int, incarnation: int, step: int) -> CheckpointPart:
    return CheckpointPart(pipeline, node, incarnation, 0, 1, step, "m", 1, 2, "")


def _layout_request(pipeline: str, uuid: str, wish: AgentPlacement | None) -> LayoutRequest:
    return LayoutRequest(pipeline, uuid, 1, 2, 0, wish=wish)


def _end(pipeline: str, uuid: str, wish: AgentPlacement) -> Desired:
    return Desired(pipeline, DesiredMode.STOPPED, uuid, wish)


RECORDS: st.SearchStrategy[ControlRecord] = st.one_of(
    st.builds(Claim, _PIPELINE, _UUID, st.just("h"), _SMALL),
    st.builds(_join, _PIPELINE, st.integers(0, 1), st.sampled_from(sorted(_PLACEMENTS)), _SMALL),
    st.builds(_state, _PIPELINE, st.integers(0, 1), st.integers(0, 12), _SMALL),
    st.builds(_command, _PIPELINE, st.integers(0, 12), _SMALL, st.integers(0, 1)),
    st.builds(
        Received,
        _PIPELINE,
        _SMALL,
        st.integers(0, 12),
        st.sampled_from("xy"),
        _SMALL,
        st.just(()),
        _SMALL,
        st.just(0),
    ),
    st.builds(Replaying, _PIPELINE, _SMALL, st.integers(0, 12), _SMALL),
    st.builds(Desired, _PIPELINE, st.sampled_from(DesiredMode), _UUID),
    st.builds(_end, _PIPELINE, _UUID, st.builds(AgentPlacement, st.just(1), st.integers(1, 3))),
    st.builds(Resume, _PIPELINE, _UUID),
    st.builds(
        Status,
        _PIPELINE,
        _SMALL,
        st.sampled_from(PipelinePhase),
        _SMALL,
        st.just(""),
        st.just(()),
        _SMALL,
        st.just(""),
        st.just(()),
    ),
    st.builds(CheckpointRequest, _PIPELINE, _UUID),
    st.builds(InputDesired, _PIPELINE, st.sampled_from("xy"), st.booleans(), _UUID),
    st.builds(
        SkipRequest, _PIPELINE, st.sampled_from("xy"), _SMALL, _SMALL, _SMALL, st.just("me"), _SMALL, _UUID
    ),
    st.builds(Hold, _PIPELINE, st.just("me"), _SMALL, st.just(()), st.booleans(), _SMALL, _UUID),
    st.builds(InputSchema, _PIPELINE, _SMALL, _SMALL, _SMALL, st.just("AVRO"), st.just("{}"), st.just(())),
    st.builds(
        OutputSchema, _PIPELINE, st.sampled_from("xy"), _SMALL, st.just("s"), st.just("AVRO"), st.just("{}")
    ),
    st.builds(_layout_request, _PIPELINE, _UUID, st.sampled_from(list(_PLACEMENTS.values()))),
    st.builds(_part, _PIPELINE, st.integers(0, 1), st.integers(0, 12), _SMALL),
)


@st.composite
def logs(draw: st.DrawFn) -> list[Logged]:
    """Records and tombstones of keys that were written before, or never were."""
    records = draw(st.lists(RECORDS, max_size=25))
    log: list[Logged] = []
    for record in records:
        log.append(Logged(len(log), 0, record))
        if draw(st.integers(0, 4)) == 0:
            victim = draw(st.sampled_from(records))
            log.append(Logged(len(log), 0, Tombstone(key_of(victim))))
    return log


def key(logged: Logged) -> str:
    """Of a record or a tombstone."""
    return logged.record.key if isinstance(logged.record, Tombstone) else key_of(logged.record)


@st.composite
def compactions(draw: st.DrawFn, log: list[Logged]) -> list[Logged]:
    """What a compaction may leave: the newest record of each key, any of the others, and a newest tombstone
    or not."""
    newest = {key(logged): logged.offset for logged in log}
    kept = []
    for logged in log:
        needed = newest[key(logged)] == logged.offset and not isinstance(logged.record, Tombstone)
        if needed or (draw(st.booleans()) and not _would_rise(log, logged)):
            kept.append(logged)
    return kept


def _would_rise(log: list[Logged], logged: Logged) -> bool:
    """Whether keeping it could bring back what a later tombstone has removed; a cleaner
    removes both or keeps the tombstone."""
    return any(
        one.offset > logged.offset and key(one) == key(logged) and isinstance(one.record, Tombstone)
        for one in log
    )
