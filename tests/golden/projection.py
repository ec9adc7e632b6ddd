"""What golden histories are compared by: everything that coordinators, nodes and people go by, named field by
field.

New fields of records are no part of it, so that a new version needs no new goldens; what is here may
never change for an old history.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from kcontrol.core.log import control_view, steps_view
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import PipelineSpec, StepBoundary
from kcontrol.errors import DamagedRecordError
from tests.golden.files import History


def project(pipeline: str, history: History) -> dict[str, Any]:
    """Fold both logs; plain values only. Raises DamagedRecordError when the core refuses the history."""
    view = reduce(control_view.evolve, history.control, PipelineView.empty(pipeline))
    steps = reduce(steps_view.evolve, history.steps, StepsView(pipeline))
    if steps.doubles:
        raise DamagedRecordError(f"no step is made after {steps.doubles[0]} before a person has accepted it")
    return {"pipeline": pipeline, "control": _control(view), "steps": _steps(steps)}


def _control(view: PipelineView) -> dict[str, Any]:
    claim, desired, resume, request = view.claim(), view.desired(), view.resume(), view.checkpoint_request()
    spec, status = view.spec(), view.status()
    return {
        "epoch": view.epoch,
        "claim": claim and claim.uuid,
        "desired": desired and [desired.mode.value, desired.request_id],
        "resume": resume and resume.request_id,
        "checkpoint_request": request and request.request_id,
        "spec": spec and _spec(spec),
        "status": status
        and [status.claim_epoch, status.phase.value, status.step, status.reason, list(status.acknowledged)],
        "nodes": {str(node): _node(view, node) for node in sorted(view.incarnations)},
        "superseded": list(control_view.superseded_keys(view)),
        **_asked_of_inputs(view),
    }


def _asked_of_inputs(view: PipelineView) -> dict[str, Any]:
    """Only where somebody has asked for something: the first histories were projected before anybody
    could."""
    spec, status = view.spec(), view.status()
    names = [] if spec is None else [one.name for one in spec.inputs]
    paused = {name: one.paused for name in names if (one := view.input_desired(name)) is not None}
    skips = [one for place in sorted(view.skips) if (one := view.skip(*place)) is not None]
    if not paused and not skips:
        return {}
    return {
        "paused": paused,
        "skips": [[one.input, one.partition, one.from_, one.to, one.by, one.request_id] for one in skips],
        "noted_to": status and status.inputs_offset,
    }


def _spec(spec: PipelineSpec) -> dict[str, Any]:
    return {
        "fingerprint": spec.fingerprint,
        "compatible_with": list(spec.compatible_with),
        "nodes": spec.nodes,
        "stateful": spec.stateful,
        "queries": list(spec.queries),
        "inputs": [
            [one.name, one.topic, one.topic_id, list(one.start_offsets), list(one.node_of)]
            for one in spec.inputs
        ],
        "outputs": [[one.name, one.topic, one.partitions, one.digest] for one in spec.outputs],
        "policy": [
            spec.policy.min_records,
            spec.policy.max_delay_ms,
            spec.policy.max_records,
            spec.policy.clock_ms,
        ],
    }


def _node(view: PipelineView, node: int) -> dict[str, Any]:
    said, written, command = view.node_state(node), view.written(node), view.command(node)
    part, replaying = view.checkpoint_part(node), view.replaying(node)
    inputs = () if (spec := view.spec()) is None else spec.inputs
    received = [(one.name, view.received(node, one.name)) for one in inputs]
    return {
        "incarnation": view.incarnation(node),
        "state": said
        and [
            said.phase.value,
            said.step,
            said.claim_epoch,
            said.command_serial,
            list(said.openable),
            said.error,
        ],
        "written": written
        and [written.step, written.token.attempt, written.failure and written.failure.value],
        "command": command and [command.serial, command.kind.value, command.step, command.incarnation],
        "checkpoint_part": part and [part.step, part.command_serial, part.manifest, part.error],
        "replaying": replaying and replaying.step,
        "received": {
            name: [[seen.partition, seen.to] for seen in one.partitions] for name, one in received if one
        },
    }


def _steps(steps: StepsView) -> dict[str, Any]:
    last = steps.last
    return {
        "first": steps.first,
        "step": steps.step,
        "now_ms": steps.now_ms,
        "last_offset": steps.last_offset,
        "last": last
        and {
            "reason": last.reason.value,
            "nodes": last.nodes,
            "attempt": last.token.attempt,
            "epoch": last.token.claim_epoch,
            "incarnations": list(last.token.incarnations),
            "watermark_moved": last.watermark_moved,
            "outputs": [
                [one.output, one.partition, one.from_, one.to, one.records, one.digest]
                for one in last.outputs
            ],
            **_left_out(last),
        },
        "next_from": [
            [name, partition, offset] for (name, partition), offset in sorted(steps.next_from.items())
        ],
        "checkpoints": [
            [one.step, one.boundary_offset, [part.manifest for part in one.parts]]
            for one in steps.checkpoints
        ],
        "can_replay_after": [step for step in range(steps.step + 1) if steps.can_replay_after(step)],
        **({"void": [[one.after, one.reset] for one in steps.resets]} if steps.resets else {}),
    }


def _left_out(last: StepBoundary) -> dict[str, Any]:
    """Only where something is, for the same reason."""
    found = {
        "paused_inputs": list(last.paused_inputs),
        "skipped_ranges": [
            [one.input, one.partition, one.from_, one.to, one.by, one.request_id]
            for one in last.skipped_ranges
        ],
    }
    return {name: those for name, those in found.items() if those}
