"""What a server needs to take rows, and what it remembers of those that it has taken."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

from kcontrol.core.model import InputSpec
from kcontrol.requests.push.bodies import InputRow
from kcontrol.requests.push.limits import BodyLimits
from kcontrol.requests.push.log import Pushed, PushLog
from kcontrol.requests.push.observer import UNSEEN, PushObserver, Refusal, refusal_of
from kcontrol.requests.push.rules import check_room
from kcontrol.views.pipeline_projection import PipelineProjection

MAX_QUEUED_ROWS = 1_000_000


@dataclass
class PushDesk:
    """log: whoever writes rows; None: nobody, and none are taken. max_queued_rows: of an input may wait for a step,
    of all requests together. observer: is told what becomes of requests. For one event loop."""

    log: PushLog | None = None
    limits: BodyLimits = field(default_factory=BodyLimits)
    max_queued_rows: int = MAX_QUEUED_ROWS
    observer: PushObserver = UNSEEN
    _ends: dict[tuple[str, str], dict[int, int]] = field(
        default_factory=lambda: defaultdict(dict), init=False
    )
    _under_way: Counter[tuple[str, str]] = field(default_factory=Counter, init=False)
    """Rows that there is room for and that are being written."""

    @contextmanager
    def room(self, pipeline: PipelineProjection, item: InputSpec, rows: int) -> Iterator[Callable[[], None]]:
        """For rows of a request: what raises if there is none, as `check_room`, and else keeps it for as long as the block
        lasts, so that requests which are answered at the same time don't each find the same."""
        place, kept = (pipeline.pipeline, item.topic_id), 0

        def check() -> None:
            nonlocal kept
            others = self._under_way[place] - kept
            check_room(pipeline, item, self.ends(*place), rows, self.max_queued_rows, others)
            self._under_way[place], kept = others + rows, rows

        try:
            yield check
        finally:
            self._under_way[place] -= kept

    def ends(self, pipeline: str, topic_id: str) -> dict[int, int]:
        """By partition of an input's topic, behind the last row that was pushed here."""
        return self._ends[pipeline, topic_id]

    def saw(self, pushed: Pushed, rows: Sequence[InputRow]) -> None:
        """Rows are committed."""
        request = pushed.request
        ends = self.ends(request.pipeline, request.topic_id)
        for each in request.ends:
            ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
        if pushed.replayed:
            self.observer.replayed(request.pipeline, request.input)
            return
        size = sum(len(row.value) + len(row.key or b"") for row in rows)
        self.observer.pushed(request.pipeline, request.input, len(rows), size)

    @contextmanager
    def watching(self, pipeline: str, input_name: str) -> Iterator[None]:
        """What goes wrong within is told."""
        try:
            yield
        except BaseException as error:
            reason = Refusal.REQUEST if isinstance(error, HTTPException) else refusal_of(error)
            if reason is None:
                self.observer.failed(pipeline, input_name)
            else:
                self.observer.refused(pipeline, input_name, reason)
            raise
