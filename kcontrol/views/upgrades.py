"""What became of a request for another layout, and what an upgrade, which is a row of them, does next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import HoldPhase, LayoutPhase, LayoutRequest, PipelineSpec, UpgradeWay
from kcontrol.core.step.offsets import paused_inputs
from kcontrol.views.pipeline_projection import Lag

OVER = (LayoutPhase.DONE, LayoutPhase.REFUSED, LayoutPhase.GIVEN_UP)


def fate_of(view: PipelineView, steps: StepsView, request: LayoutRequest) -> LayoutPhase | None:
    """What became of it, as far as was read; None: it is under way.

    The record of the change counts before what is said of it; a request for a change that another one was is over.
    """
    made, told = steps.assignment, view.layout_told()
    if made is not None and made.request_id == request.request_id:
        return LayoutPhase.DONE
    if told is not None and told.request_id == request.request_id and told.phase in OVER:
        return told.phase
    number = 0 if made is None else made.number
    return LayoutPhase.GIVEN_UP if request.nodes == 0 or request.number <= number else None


def nodes_in_force(view: PipelineView, steps: StepsView) -> int:
    """How many nodes the pipeline has; 0: there is none."""
    spec, made = view.spec(), steps.assignment
    if spec is None:
        return 0
    return made.nodes if made is not None and made.live and made.number > spec.assignment else spec.nodes


def steps_are_due(spec: PipelineSpec, view: PipelineView, lags: Iterable[Lag]) -> bool:
    """Whether a pipeline that is whole makes steps: there is input enough for one that waits for no delay, and nobody holds it.
    lags: how much waits."""
    said = view.status()
    if said is not None and said.hold is not None and said.hold.phase is HoldPhase.HELD:
        return False
    paused = paused_inputs(spec, view)
    waiting = sum(lag.offsets for lag in lags if lag.input not in paused)
    return waiting >= max(1, spec.policy.min_records)


# --- an upgrade ---------------------------------------------------------------------------------------------

REPLACING = (UpgradeWay.IN_PLACE, UpgradeWay.REPLACE)
"""These ways leave the number of nodes as it is."""


class UpgradePart(Enum):
    """What one change of an upgrade does."""

    REPLACE = "replaced"
    """Another process is the node, with all that it has."""
    ADD = "added"
    """A node more, with the next number."""
    REMOVE = "removed"
    """A node less."""


@dataclass(frozen=True, slots=True)
class UpgradeTurn:
    """One change. node: which is replaced, added or removed. left: the nodes that have processes of before once it is made,
    of those that are to be upgraded, in order. nodes: how many there are before it. whole: once the upgrade is over. others:
    nodes that are replaced in the same change."""

    part: UpgradePart
    node: int
    left: tuple[int, ...]
    nodes: int
    whole: int
    others: tuple[int, ...] = ()

    def __str__(self) -> str:
        every = (self.node, *self.others)
        return f"node{'s' if self.others else ''} {', '.join(map(str, every))}"

    @property
    def nodes_after(self) -> int:
        """How many there are once it is made."""
        return self.nodes + {UpgradePart.REPLACE: 0, UpgradePart.ADD: 1, UpgradePart.REMOVE: -1}[self.part]

    @property
    def renumbers(self) -> bool:
        """Whether the number of the node that is removed goes to a process in the place of the last one."""
        return self.part is UpgradePart.REMOVE and self.node < self.nodes - 1

    @property
    def comes(self) -> tuple[int, ...]:
        """The numbers that new processes have."""
        needs_one = self.part is not UpgradePart.REMOVE or self.renumbers
        return (self.node, *self.others) if needs_one else ()

    def place_of(self, node: int) -> int | None:
        """The node on whose host and in whose directory the new process of this number finds most of what it needs; None: no
        such node."""
        if self.part is UpgradePart.REPLACE:
            return node
        return self.nodes - 1 if self.renumbers else None


def next_turn(
    way: UpgradeWay, todo: tuple[int, ...], nodes: int, whole: int, *, together: bool = False
) -> UpgradeTurn | None:
    """What comes next, with so many nodes now, and `whole` of them once it is over; None: it is over. together: those that are
    replaced are so in one change.

    No process changes its number (decision 098). Hence the number of a node that is removed goes to a new process in the place
    of the last one, which so is of the new version, too; only where the last one alone is left to be done it just ends.
    """
    if nodes == whole and not todo:
        return None
    if nodes == whole and way in REPLACING:
        others, left = (todo[1:], ()) if together else ((), todo[1:])
        return UpgradeTurn(UpgradePart.REPLACE, todo[0], left, nodes, whole, others)
    if nodes < whole or (nodes == whole and way is UpgradeWay.OUT_IN):
        return UpgradeTurn(UpgradePart.ADD, nodes, _but(todo, nodes), nodes, whole)
    before_last = [node for node in todo if node < nodes - 1]
    if not before_last:
        return UpgradeTurn(UpgradePart.REMOVE, nodes - 1, todo, nodes, whole)
    return UpgradeTurn(UpgradePart.REMOVE, before_last[0], _but(todo, before_last[0]), nodes, whole)


def whole_of(newest: LayoutRequest | None, way: UpgradeWay, nodes: int) -> int:
    """How many nodes there are once an upgrade of this way is over, whether it goes on or begins. nodes: now."""
    return nodes if newest is None or newest.way != way else newest.whole or nodes


@dataclass(frozen=True, slots=True)
class SizeNow:
    """How many nodes a pipeline has whose layout was changed while it ran. whole: once an upgrade that is between two of its
    changes is over; as many as now, if there is none."""

    nodes: int
    whole: int

    def advice(self, pipeline: str, said: int) -> str:
        """For whoever has a file that says another number; '' if that is right once the upgrade is over."""
        if said == self.whole:
            return ""
        meanwhile = "" if self.nodes == self.whole else f", and {self.nodes} while it is upgraded"
        return (
            f"pipeline {pipeline} has {self.whole} nodes since its layout was changed while it ran{meanwhile}, and its file "
            f"says {said}: give the file {self.whole}"
        )


def size_now(view: PipelineView, steps: StepsView) -> SizeNow | None:
    """As far as was read; None: nobody has changed the layout while the pipeline ran."""
    made, newest = steps.assignment, view.layout_request()
    if made is None or not made.live:
        return None
    return SizeNow(made.nodes, (newest.whole if newest is not None else 0) or made.nodes)


def first_turn(
    way: UpgradeWay,
    asked_for: tuple[int, ...],
    newest: LayoutRequest | None,
    fate: LayoutPhase | None,
    nodes: int,
    *,
    together: bool = False,
) -> UpgradeTurn:
    """Where the command begins, or goes on, by what is in the logs: the newest request, what became of it, and how many nodes
    there are. asked_for: (): all nodes. together: see `next_turn`; a change that is under way is not another one for that."""
    whole = whole_of(newest, way, nodes)
    wanted = asked_for or tuple(range(whole))
    rest = () if newest is None else nodes_left(newest, fate, way, wanted)
    if newest is not None and fate is None and {*newest.replaced} & {*rest}:
        together = len(newest.replaced) > 1
    # Between an addition and a removal there may be no node left to be upgraded, and one too many.
    todo = rest or (wanted if nodes == whole else asked_for)
    turn = next_turn(way, todo, nodes, whole, together=together)
    assert turn is not None, "some node is wanted, or there is one too many"
    return turn


def turns(
    way: UpgradeWay, todo: tuple[int, ...], nodes: int, whole: int, *, together: bool = False
) -> Iterator[UpgradeTurn]:
    """All that are to come, if each is made."""
    turn = next_turn(way, todo, nodes, whole, together=together)
    while turn is not None:
        yield turn
        turn = next_turn(way, turn.left, turn.nodes_after, whole, together=together)


def turn_of(request: LayoutRequest, nodes: int) -> UpgradeTurn:
    """That which was asked for by this, with so many nodes now."""
    whole = request.whole or nodes
    if request.nodes > nodes:
        return UpgradeTurn(UpgradePart.ADD, nodes, request.left, nodes, whole)
    node, *others = request.replaced or (nodes - 1,)
    part = UpgradePart.REMOVE if request.nodes < nodes else UpgradePart.REPLACE
    return UpgradeTurn(part, node, request.left, nodes, whole, tuple(others))


def nodes_left(
    newest: LayoutRequest, fate: LayoutPhase | None, way: UpgradeWay, wanted: tuple[int, ...]
) -> tuple[int, ...]:
    """Those of `wanted` that an upgrade of this way has left, if the newest request is of one: the nodes that it is of, too,
    unless they are done."""
    if newest.way != way:
        return ()
    left = newest.left if fate is LayoutPhase.DONE else _distinct((*newest.replaced, *newest.left))
    return tuple(node for node in left if node in wanted)


def _but(todo: tuple[int, ...], node: int) -> tuple[int, ...]:
    return tuple(each for each in todo if each != node)


def _distinct(nodes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(nodes))
