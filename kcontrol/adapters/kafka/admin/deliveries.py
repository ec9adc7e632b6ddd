"""What deliveries tell of themselves: the committed offset of a consumer group each, which nobody is a member of, with a text
beside it. For showing alone: nothing is decided by it.

The offset is that of the log of steps, counted in steps: the number of the next one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kcontrol.adapters.kafka.admin.group_offsets import GroupOffsets, KeptOffset
from kcontrol.errors import AccessError, ClusterError
from kcontrol.settings.cluster import ClusterSettings

MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class ToldDelivery:
    """A delivery as it was at `at_ms`, by its own clock. step: the last one in the target; -1: not known."""

    output: str
    target: str
    kind: str
    guarantee: str
    state: str
    step: int
    lag_s: float
    reason: str
    at_ms: int


class DeliveryNotes:
    """Of one pipeline. All methods raise ClusterError; `read` raises AccessError where that is why."""

    def __init__(self, settings: ClusterSettings, pipeline: str) -> None:
        self._names, self._pipeline = settings.names(), pipeline
        self._offsets = GroupOffsets(settings, self._names.steps_topic(pipeline))

    def tell(self, told: ToldDelivery) -> None:
        """In place of what was told before."""
        group = self._names.delivery_group(self._pipeline, f"{told.output}.{told.target}")
        text = json.dumps({**asdict(told), "reason": told.reason[:MAX_REASON]})
        try:
            self._offsets.write(group, KeptOffset(max(told.step + 1, 0), text))
        except ClusterError as error:
            raise ClusterError(f"group {group!r}: what the delivery tells was not taken: {error}") from error

    def read(self) -> list[ToldDelivery]:
        """By output and target."""
        try:
            groups = self._offsets.groups(self._names.delivery_group(self._pipeline))
            kept = [self._offsets.read(group) for group in groups]
        except ClusterError as error:
            kind = AccessError if isinstance(error, AccessError) else ClusterError
            raise kind(f"deliveries of pipeline {self._pipeline!r} are not known: {error}") from error
        found = [_told(each.text) for each in kept if each is not None]
        return [each for each in found if each is not None]


def _told(text: str) -> ToldDelivery | None:
    try:
        return ToldDelivery(**json.loads(text)) if text else None
    except (ValueError, TypeError):
        # Of another version, or somebody else's.
        return None
