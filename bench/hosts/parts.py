"""What lies between the death of a host and the next commit of the pipeline whose node it ran, by when each thing was said in
the cluster's log, on the pipeline's control topic and in its steps. All are processes of one machine, with one clock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.figures import Spread
from bench.layout.parts import OPENS, Boundary, Part, lasted
from kcontrol.core.cluster.entries import Leave
from kcontrol.core.model import Command, Logged, NodeJoin, NodePhase, NodeState
from kcontrol.wire.cluster import StampedEntry

WITH_COORDINATOR, NODE_ALONE = "the node and its coordinator", "the node, not its coordinator"


@dataclass(frozen=True)
class HostDeath:
    """One host that was killed while it ran the node. host, onto: which one it was, and which went on. coordinator: that of the
    pipeline was on it, too. back_ms: from SIGKILL to the next commit, of which the parts are."""

    host: str
    onto: str
    coordinator: bool
    back_ms: float
    parts: tuple[Part, ...]

    @property
    def what(self) -> str:
        """For people."""
        return WITH_COORDINATOR if self.coordinator else NODE_ALONE


def first_by_another(steps: Sequence[Boundary], process: int) -> Boundary | None:
    """The first step that was not made by that process of the only node, known by its incarnation, after those that were."""
    made = [maker(step) for step in steps]
    last = max(at for at, each in enumerate(made) if each == process)
    return steps[last + 1] if last + 1 < len(steps) else None


def maker(step: Boundary) -> int:
    """The process of the only node that made a step, by its incarnation."""
    [incarnation] = step["token"]["incarnations"]
    return int(incarnation)


def joined_as(control: Sequence[Logged], incarnation: int) -> tuple[Logged, NodeJoin]:
    """What that process said when it came. Raises ValueError."""
    for each in control:
        if each.offset == incarnation and isinstance(each.record, NodeJoin):
            return each, each.record
    raise ValueError(f"no process has joined at {incarnation}")


def noticed_ms(log: Iterable[StampedEntry], host: str, killed_ms: float) -> float:
    """When the log of the cluster had it that the host is gone. Raises ValueError."""
    for each in log:
        if isinstance(each.entry, Leave) and each.entry.agent == host and each.at_ms >= killed_ms:
            return each.at_ms
    raise ValueError(f"nobody has said that {host} is gone")


def parts(
    killed_ms: float, gone_ms: float, started_ms: float, control: Sequence[Logged], step: Boundary
) -> tuple[Part, ...]:
    """Up to the commit of `step`, the first one afterwards. gone_ms: as `noticed_ms`. started_ms: when an agent started the
    process that made the step. control: all that was said."""
    process = maker(step)
    join, _ = joined_as(control, process)
    told = [
        each
        for each in control
        if isinstance(each.record, Command)
        and each.record.incarnation == process
        and each.record.kind in OPENS
    ]
    opened_ms = told[0].timestamp_ms if told else 0
    states = _States(control, process)
    before = step["step"] - 1
    return lasted(
        killed_ms,
        (
            ("its silence is noticed", gone_ms),
            ("an agent reads that, and starts the node", started_ms),
            ("the node's process joins", join.timestamp_ms),
            ("it reads the logs", states.first_ms(join.timestamp_ms)),
            ("it is told what to open", opened_ms),
            ("Spark starts, state is fetched, queries open", states.first_ms(opened_ms, _HOLDS)),
            ("steps since the checkpoint are made again", states.holds_ms(before)),
            ("the next step is begun", step["opened_ms"]),
            ("it is made and committed", step["committed_ms"]),
        ),
    )


_HOLDS = (NodePhase.OPEN, NodePhase.RUNNING)
"""A node's queries are open in these; it runs while it makes steps again that others have made."""


class _States:
    """What one process of a node said of itself, and when."""

    def __init__(self, control: Sequence[Logged], process: int) -> None:
        self._said = [
            (each.timestamp_ms, each.record)
            for each in control
            if isinstance(each.record, NodeState) and each.record.incarnation == process
        ]

    def first_ms(self, since_ms: float, phases: Collection[NodePhase] = tuple(NodePhase)) -> float:
        """For the first time since then, in one of these phases; 0: never."""
        return min((at for at, state in self._said if at >= since_ms and state.phase in phases), default=0)

    def holds_ms(self, step: int) -> float:
        """When it held that step for the first time; 0: never."""
        return min(
            (at for at, state in self._said if state.phase in _HOLDS and state.step >= step), default=0
        )


def by_what(deaths: Sequence[HostDeath]) -> Mapping[str, Spread]:
    """Milliseconds, of all of them and by what died with the host."""
    kinds = {"all": deaths}
    for what in (NODE_ALONE, WITH_COORDINATOR):
        kinds[what] = [each for each in deaths if each.what == what]
    return {what: Spread.of(each.back_ms for each in found) for what, found in kinds.items() if found}


def spent(deaths: Sequence[HostDeath]) -> Mapping[str, Spread]:
    """By part: milliseconds."""
    found: dict[str, list[float]] = {}
    for each in deaths:
        for part in each.parts:
            found.setdefault(part.what, []).append(part.ms)
    return {what: Spread.of(figures) for what, figures in found.items()}


def as_json(deaths: Sequence[HostDeath]) -> list[dict[str, Any]]:
    """Every single one."""
    return [
        {
            "host": each.host,
            "onto": each.onto,
            "died": each.what,
            "back_ms": each.back_ms,
            "parts_ms": {part.what: part.ms for part in each.parts},
        }
        for each in deaths
    ]
