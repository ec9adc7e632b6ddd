"""A user's request, as a record in the control partition of its pipeline.

The command line and the HTTP server write through here. It stands in the log and outlives all processes; a
newer request of the same kind takes an older one's place. What it may say is decided before
(`pipeline_requests`, `input_requests`), what becomes of it is found in the logs (`outcomes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kcontrol.errors import KcontrolError
from kcontrol.sessions.ports import ControlLog
from kcontrol.views.pipeline_projection import Request


class NotNowError(KcontrolError):
    """The pipeline's state does not allow what was asked for; nothing was recorded."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """A request that is in the log, and the offset of its record in the pipeline's control partition."""

    request: Request
    offset: int

    @property
    def request_id(self) -> str:
        """By which its outcome is asked for."""
        return self.request.request_id


async def record(log: ControlLog, requests: Sequence[Request]) -> RecordedRequest:
    """Write requests down, in order; the last is the one that is waited for, the others make room for it."""
    offsets = await log.append(requests)
    return RecordedRequest(requests[-1], offsets[-1])
