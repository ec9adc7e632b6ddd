"""Whether a pipeline can have as many nodes as the cluster of agents has room for. Nothing is written here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcontrol.core.model import PipelineSpec
from kcontrol.errors import ConfigurationError
from kcontrol.requests.layout_requests import is_at_work, live_change
from kcontrol.requests.record import NotNowError
from kcontrol.views.pipeline_projection import PipelineProjection


@dataclass(frozen=True, slots=True)
class FitSeen:
    """nodes: so many it can have; 0: no other number than it has. anew: by beginning anew with all of them. why: not more, or
    not now, in words."""

    nodes: int = 0
    anew: bool = False
    why: str = ""


def fit_seen(projection: PipelineProjection, has: int, room: int, least: int, now_ms: int) -> FitSeen:
    """Of a pipeline that was submitted, both of whose logs were read. has: so many nodes its job is to have so far. room: there
    is room for so many. least: it is not given fewer. now_ms: by the wall clock.

    It has so many if it can, or the next fewer that it can.
    """
    if not is_at_work(projection, now_ms):
        return FitSeen(why="the pipeline does not run")
    spec = projection.spec()
    begins_anew = not (spec.divides or spec.assignment)
    if begins_anew and spec.nodes > 1:
        # It needs nobody who is lost, as a change of the layout does.
        return _anew(spec, has, room, least)
    why = ""
    for nodes in _numbers(has, room, least):
        try:
            live_change(projection, nodes, None)
        except NotNowError as error:
            return FitSeen(why=str(error))
        except ConfigurationError as error:
            why = why or str(error)
        else:
            return FitSeen(nodes, why=why)
    return _anew(spec, has, room, least) if begins_anew else FitSeen(why=why)


def _numbers(has: int, room: int, least: int) -> Iterable[int]:
    """What it may be given, the nearest to what there is room for first."""
    return range(room, max(has, least - 1), -1) if room > has else range(room, least - 1, -1)


def _anew(spec: PipelineSpec, has: int, room: int, least: int) -> FitSeen:
    """Of a pipeline that keeps nothing: a node more than there are partitions would read nothing, and what is one node's alone
    needs that node."""
    partitions = max(len(each.start_offsets) for each in spec.inputs)
    alone = [each.node for each in spec.inputs] + [each.node for each in spec.outputs]
    fewest = max(least, 1 + max(alone))
    nodes = min(room, max(partitions, fewest))
    if nodes < fewest:
        return FitSeen(why=f"inputs or outputs of it are node {fewest - 1}'s alone (node=)")
    why = "" if nodes == room else f"its inputs have {partitions} partitions at most"
    return FitSeen(0 if nodes == has or (room > has > nodes) else nodes, anew=True, why=why)
