"""What of an upgrade can't be made, known before its first change is asked for."""

from __future__ import annotations

from collections.abc import Iterable

from kcontrol.core.model import PipelineSpec
from kcontrol.core.step.layout_change import as_made, changed, refused_live
from kcontrol.views.upgrades import UpgradePart, UpgradeTurn


def refused_turns(spec: PipelineSpec, step: int, turns: Iterable[UpgradeTurn]) -> str:
    """Why one of these changes can't be made of a pipeline that runs by `spec` and has made so many steps, each after those
    before it, or ''. What a checkpoint tells, or a process that is to be a node, is not known yet."""
    for turn in turns:
        if turn.part is UpgradePart.REPLACE:
            continue
        without = turn.node if turn.renumbers else None
        replaced = (turn.node,) if turn.renumbers else ()
        refused = refused_live(spec, turn.nodes_after, step, replaced, without)
        if refused:
            return refused
        change = changed(spec, turn.nodes_after, without)
        spec = as_made(spec, change.nodes, change.recorded(spec.pipeline, spec.assignment + 1, step))
    return ""
