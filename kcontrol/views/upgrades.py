"""What became of a request for another layout, and what an upgrade, which is a row of them, has left to do."""

from __future__ import annotations

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import LayoutPhase, LayoutRequest, UpgradeWay

OVER = (LayoutPhase.DONE, LayoutPhase.REFUSED, LayoutPhase.GIVEN_UP)


def fate_of(view: PipelineView, steps: StepsView, request: LayoutRequest) -> LayoutPhase | None:
    """What became of it, as far as was read; None: it is under way.

    The record of the change counts before what is said of it; a request for a change that another one was is over.
    """
    made, status = steps.assignment, view.status()
    if made is not None and made.request_id == request.request_id:
        return LayoutPhase.DONE
    told = None if status is None else status.layout
    if told is not None and told.request_id == request.request_id and told.phase in OVER:
        return told.phase
    number = 0 if made is None else made.number
    return LayoutPhase.GIVEN_UP if request.nodes == 0 or request.number <= number else None


def nodes_left(
    newest: LayoutRequest, fate: LayoutPhase | None, way: UpgradeWay, wanted: tuple[int, ...]
) -> tuple[int, ...]:
    """Those of `wanted` that an upgrade of this way has left, if the newest request is of one: the node that it is of, too,
    unless that is done."""
    if newest.way != way:
        return ()
    left = newest.left if fate is LayoutPhase.DONE else (*newest.replaced, *newest.left)
    return tuple(node for node in left if node in wanted)
