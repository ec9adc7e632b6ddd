"""What a user asks of a whole pipeline, as records in its control partition.

The command line and the HTTP server write through here. A request is done when the coordinator's status acknowledges it; until
then it stands in the log and outlives all processes. A newer request of the same kind takes an older one's place.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import uuid4

from kcontrol.core.model import CheckpointRequest, Desired, DesiredMode, PipelinePhase, Resume, Status
from kcontrol.errors import HaltedError, KcontrolError
from kcontrol.sessions.ports import ControlLog


class NotNowError(KcontrolError):
    """The pipeline's state does not allow what was asked for; nothing was recorded."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request that is in the log: its id, and the offset of its record in the pipeline's control partition."""

    request_id: str
    offset: int


async def record_mode(
    log: ControlLog, pipeline: str, mode: DesiredMode, now: Status | None, *, lift_halt: bool = True
) -> Recorded:
    """Write down what is wanted and, with `lift_halt`, the end of a halt if that is what stands against it.

    now: the newest status of the pipeline. Raises HaltedError when running is wanted, and a halt that is not to be lifted
    stands against it.
    """
    halted = mode is DesiredMode.RUNNING and now is not None and now.phase is PipelinePhase.HALTED
    if halted and not lift_halt:
        raise HaltedError(f"pipeline {pipeline!r} has halted, and goes on only when that is lifted. {_why(now)}")
    lifted = [Resume(pipeline, uuid4().hex)] if halted else []
    wanted = Desired(pipeline, mode, uuid4().hex)
    offsets = await log.append([*lifted, wanted])
    return Recorded(wanted.request_id, offsets[-1])


async def record_checkpoint(log: ControlLog, pipeline: str, now: Status | None) -> Recorded:
    """Ask for a checkpoint, also of a paused pipeline, or of one whose last step is saved already.

    Raises HaltedError or NotNowError when the pipeline has halted or is stopped: nothing would be saved.
    """
    if now is not None and now.phase in (PipelinePhase.STOPPED, PipelinePhase.HALTED) and now.checkpoint < max(1, now.step):
        text = (
            f"pipeline {pipeline!r} is {now.phase.value} at step {now.step}, and is saved only while it runs or is paused: "
            f"kcontrol resume {pipeline}"
        )
        if now.phase is PipelinePhase.HALTED:
            raise HaltedError(f"{text}. {_why(now)}")
        raise NotNowError(text)
    request = CheckpointRequest(pipeline, uuid4().hex)
    (offset,) = await log.append([request])
    return Recorded(request.request_id, offset)


def _why(now: Status | None) -> str:
    return f"It has halted because: {now.reason if now is not None else ''}"
