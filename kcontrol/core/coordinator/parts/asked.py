"""What users have asked for, as far as it was acted on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcontrol.core.model import CheckpointAnswer

REMEMBERED_REQUESTS = 16


@dataclass(frozen=True, slots=True)
class Asked:
    """The newest requests, and what the next plan goes by."""

    acknowledged: tuple[str, ...] = ()
    """Ids of requests that were acted on, newest last."""
    answers: tuple[CheckpointAnswer, ...] = ()
    """To requests for a checkpoint, newest last."""
    paused: tuple[str, ...] = ()
    """Inputs that the next plan reads nothing of."""
    inputs_offset: int = -1
    """Control offset of the newest request about an input that the next plan goes by."""

    def acknowledging(self, request_id: str) -> Asked:
        """A request was acted on; the status says so."""
        return replace(self, acknowledged=(*self.acknowledged, request_id)[-REMEMBERED_REQUESTS:])

    def answering(self, request_id: str, step: int, error: str) -> Asked:
        """A request for a checkpoint was acted on: its step, or 0 and why there is none."""
        answers = (*self.answers, CheckpointAnswer(request_id, step, error))[-REMEMBERED_REQUESTS:]
        return replace(self.acknowledging(request_id), answers=answers)

    def of_inputs(self, paused: tuple[str, ...], offset: int) -> Asked:
        """The next plan goes by this."""
        if (paused, offset) == (self.paused, self.inputs_offset):
            return self
        return replace(self, paused=paused, inputs_offset=offset)

    def unread(self) -> Asked:
        """Another tenure begins."""
        return replace(self, inputs_offset=-1)

    def inherited(self, acknowledged: tuple[str, ...], answers: tuple[CheckpointAnswer, ...]) -> Asked:
        """What the predecessors have acted on."""
        return replace(self, acknowledged=acknowledged, answers=answers)
