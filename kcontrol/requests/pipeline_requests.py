"""What a user asks of a whole pipeline: to run, to be paused or stopped, to save its
state. Nothing is written here."""

from __future__ import annotations

from uuid import uuid4

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import CheckpointRequest, Desired, DesiredMode, PipelinePhase, Resume, Status
from kcontrol.errors import HaltedError
from kcontrol.requests.record import NotNowError
from kcontrol.views.pipeline_projection import Request


def mode_requests(view: PipelineView, mode: DesiredMode, *, lift_halt: bool = True) -> tuple[Request, ...]:
    """What is wanted and, with `lift_halt`, before it the end of a halt if that is what stands against it.

    Raises HaltedError when running is wanted, and a halt that is not to be lifted stands against it.
    """
    pipeline, now = view.pipeline, view.status()
    wanted = Desired(pipeline, mode, uuid4().hex)
    if mode is not DesiredMode.RUNNING or now is None or now.phase is not PipelinePhase.HALTED:
        return (wanted,)
    if not lift_halt:
        raise HaltedError(
            f"pipeline {pipeline!r} has halted, and goes on only when that is lifted. {_why(now)}"
        )
    return Resume(pipeline, uuid4().hex), wanted


def checkpoint_request(view: PipelineView, committed: int) -> tuple[Request, ...]:
    """To save the state now, also of a paused pipeline, or of one whose last step is saved already.

    committed: the last step that was read in the log of steps: no older one is an answer.
    Raises HaltedError or NotNowError when the pipeline has halted or is stopped: nothing would be saved.
    """
    pipeline, now = view.pipeline, view.status()
    ended = (PipelinePhase.STOPPED, PipelinePhase.HALTED)
    if now is not None and now.phase in ended and now.checkpoint < max(1, now.step):
        text = (
            f"pipeline {pipeline!r} is {now.phase.value} at step {now.step}, and is saved only while it "
            f"runs or is paused: kcontrol resume {pipeline}"
        )
        if now.phase is PipelinePhase.HALTED:
            raise HaltedError(f"{text}. {_why(now)}")
        raise NotNowError(text)
    return (CheckpointRequest(pipeline, uuid4().hex, committed),)


def _why(now: Status) -> str:
    return f"It has halted because: {now.reason}"
