"""What deliveries tell of themselves: the committed offset of a consumer group each, which nobody is a member of, with a text
beside it. For showing alone: nothing is decided by it.

The offset is that of the log of steps, counted in steps: the number of the next one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace

from kcontrol.adapters.kafka.admin.group_offsets import GroupOffsets, KeptOffset
from kcontrol.errors import AccessError, ClusterError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.deliveries import StandsBy, ToldDelivery, with_others

MAX_REASON = 500
MAX_TEXT_BYTES = 4_000
"""What brokers take at least (`offset.metadata.max.bytes` is 4096)."""
_MAX_ADDRESS, _MAX_WHO = 300, 120


class DeliveryNotes:
    """Of one pipeline. All methods raise ClusterError; those that read raise AccessError where that is why."""

    def __init__(self, settings: ClusterSettings, pipeline: str) -> None:
        self._names, self._pipeline = settings.names(), pipeline
        self._offsets = GroupOffsets(settings, self._names.steps_topic(pipeline))

    def tell(self, mine: ToldDelivery) -> None:
        """In place of what was told before, with what other processes of the same delivery say."""
        group = self._names.delivery_group(self._pipeline, f"{mine.output}.{mine.target}")
        own = replace(mine, address=mine.address[:_MAX_ADDRESS], who=mine.who[:_MAX_WHO])
        try:
            told = with_others(_told(self._offsets.read(group)), own)
            self._offsets.write(group, KeptOffset(max(told.step + 1, 0), _text(told)))
        except ClusterError as error:
            raise ClusterError(f"group {group!r}: what the delivery tells was not taken: {error}") from error

    def read(self) -> list[ToldDelivery]:
        """All of them, by output and target."""
        return self.look(None)[0]

    def look(self, most: int | None) -> tuple[list[ToldDelivery], int]:
        """So many of them at most, and how many were left out."""
        try:
            groups = self._offsets.groups(self._names.delivery_group(self._pipeline))
            wanted = groups[:most]
            found = [_told(each) for each in self._offsets.read_all(wanted)]
        except ClusterError as error:
            kind = AccessError if isinstance(error, AccessError) else ClusterError
            raise kind(f"deliveries of pipeline {self._pipeline!r} are not known: {error}") from error
        return [each for each in found if each is not None], len(groups) - len(wanted)


def _text(told: ToldDelivery) -> str:
    """So that brokers take it: a reason in letters beyond ASCII is cut shorter."""
    reason = told.reason[:MAX_REASON]
    while len(text := json.dumps({**asdict(told), "reason": reason})) > MAX_TEXT_BYTES and reason:
        reason = reason[: len(reason) // 2]
    return text


def _told(kept: KeptOffset | None) -> ToldDelivery | None:
    """None: nothing was told, or by somebody else. What a newer version says beside it is passed over."""
    known = {each.name for each in fields(ToldDelivery)}
    try:
        said = json.loads((kept.text if kept is not None else "") or "null")
        others = tuple(StandsBy(str(each["who"]), int(each["at_ms"])) for each in said.get("standing_by", ()))
        return ToldDelivery(**{**{name: said[name] for name in said if name in known}, "standing_by": others})
    except (ValueError, TypeError, AttributeError, KeyError):
        # Of a version that says less, or somebody else's.
        return None
