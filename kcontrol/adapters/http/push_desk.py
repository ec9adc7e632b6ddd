"""What a server needs to take rows, and what it remembers of those that it has taken."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from kcontrol.requests.push.limits import BodyLimits
from kcontrol.requests.push.log import Pushed, PushLog

MAX_QUEUED_ROWS = 1_000_000


@dataclass
class PushDesk:
    """log: whoever writes rows; None: nobody, and none are taken. max_queued_rows: of an input may wait for a step."""

    log: PushLog | None = None
    limits: BodyLimits = field(default_factory=BodyLimits)
    max_queued_rows: int = MAX_QUEUED_ROWS
    _ends: dict[tuple[str, str], dict[int, int]] = field(
        default_factory=lambda: defaultdict(dict), init=False
    )

    def ends(self, pipeline: str, topic_id: str) -> dict[int, int]:
        """By partition of an input's topic, behind the last row that was pushed here."""
        return self._ends[pipeline, topic_id]

    def saw(self, pushed: Pushed) -> None:
        """Rows are committed."""
        ends = self.ends(pushed.request.pipeline, pushed.request.topic_id)
        for each in pushed.request.ends:
            ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
