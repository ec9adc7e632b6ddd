"""What `kcontrol status` says of one input: what waits, whether it is paused, what is to be skipped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcontrol.core.inputs import is_paused
from kcontrol.core.keys import input_key
from kcontrol.core.model import PipelineSpec, SkipRequest
from kcontrol.core.pipeline_view import PipelineView
from kcontrol.core.skips import overtaken, unseen
from kcontrol.core.steps_view import StepsView


def input_facts(spec: PipelineSpec, committed: StepsView, view: PipelineView, name: str, waiting: int) -> dict[str, Any]:
    """One input of the spec.

    `noted`: the coordinator goes by whether it is paused. `skips`: those that no step has gone by yet; `waits_for` says why
    the next one will not, '' if it will.
    """
    item = next(one for one in spec.inputs if one.name == name)
    said, asked = view.status(), view.latest.get(input_key(view.pipeline, name))
    skips = [
        _skip_facts(spec, committed, view, skip)
        for place in sorted(view.skips)
        if place[0] == name
        and (skip := view.skip(*place)) is not None
        and skip.from_ < skip.to
        and not overtaken(spec, committed, view, skip)
    ]
    return {
        "input": name,
        "waiting": waiting,
        "paused": is_paused(view, item),
        "noted": asked is None or (said is not None and said.inputs_offset >= asked.offset),
        "skips": skips,
    }


def _skip_facts(spec: PipelineSpec, committed: StepsView, view: PipelineView, skip: SkipRequest) -> dict[str, Any]:
    return {
        "partition": skip.partition,
        "from": skip.from_,
        "to": skip.to,
        "by": skip.by,
        "asked_ms": skip.asked_ms,
        "waits_for": unseen(spec, committed, view, skip),
    }


def input_line(facts: Mapping[str, Any]) -> str:
    """The same for people."""
    said = [f"{facts['input']}: {facts['waiting']:,} offsets wait"]
    if facts["paused"]:
        said.append("paused")
    if not facts["noted"]:
        said[-1] += f" ({'pausing' if facts['paused'] else 'resuming'} it waits for a coordinator)"
    for skip in facts["skips"]:
        waits = f"; {skip['waits_for']}" if skip["waits_for"] else ""
        offsets = f"offsets {skip['from']} to {skip['to'] - 1} of partition {skip['partition']}"
        said.append(f"the next step skips {offsets}, by {skip['by']}{waits}")
    return "; ".join(said)
