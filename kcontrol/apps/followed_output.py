"""The committed steps of one output, piece by piece, for whoever streams them on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from kcontrol.adapters.http.output_pieces import BEAT_S, Piece, Rows, StepDone, Voided
from kcontrol.apps.step_consumer import StepConsumer
from kcontrol.apps.step_records import OutputRecord
from kcontrol.apps.step_stream import StreamedStep
from kcontrol.errors import StepsVoidedError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings

BYTES_HELD = 4 << 20
"""Of a step at a time, for each stream."""
SETTLE_S, LOOK_AGAIN_S = 5.0, 0.5
"""A broker may show for a while the log of a pipeline that was deleted and made anew."""


class FollowedOutput:
    """The OutputPieces port on a StepConsumer, which begins with the first piece."""

    def __init__(
        self, settings: ClusterSettings, pipeline: str, output: str, after: int, log_id: str = ""
    ) -> None:
        """after: the last step that is had; 0: none. log_id: of the log that it is of; '' if that is not known."""
        self._settings, self._pipeline, self._output, self._after = settings, pipeline, output, after
        self._log_id, self._leaving = log_id, threading.Event()
        self._consumer: StepConsumer | None = None
        self._turn = threading.Lock()
        """Whoever has gone leaves a piece that is being taken behind, and closes."""
        self._closed = False
        self._step: StreamedStep | None = None
        self._chunks: Iterator[tuple[str, list[OutputRecord]]] = iter(())
        self._rows = 0

    def begin(self) -> str:
        """As the port says."""
        with self._turn:
            waited_s = 0.0
            while True:
                consumer = self._begun()
                found = consumer.log_id
                if self._log_id in ("", found):
                    return found
                if waited_s >= SETTLE_S or self._leaving.wait(LOOK_AGAIN_S):
                    raise NotNowError(
                        f"pipeline {self._pipeline!r}: its log of steps is {found}, and step {self._after} was asked for of "
                        f"log {self._log_id}: the pipeline was deleted and made anew, or this is another cluster. Drop what "
                        "you have of it, and begin with ?after=0 and no Last-Event-ID"
                    )
                waited_s += LOOK_AGAIN_S
                self._consumer = None
                consumer.close()

    def take(self) -> Piece | None:
        """As the port says."""
        with self._turn:
            return None if self._closed else self._take(self._begun())

    def _begun(self) -> StepConsumer:
        if self._consumer is None:
            self._consumer = StepConsumer(
                self._pipeline,
                self._settings,
                after_step=self._after,
                outputs=[self._output],
                timeout=BEAT_S,
                max_bytes_held=BYTES_HELD,
            )
        return self._consumer

    def _take(self, consumer: StepConsumer) -> Piece | None:
        if self._step is None:
            try:
                self._step = next(consumer.streamed(), None)
            except StepsVoidedError as error:
                return Voided(error.first - 1, error.next_step - 1, error.why)
            if self._step is None:
                return None
            self._chunks, self._rows = self._step.chunks(), 0
        _, rows = next(self._chunks, ("", None))
        if rows is not None:
            self._rows += len(rows)
            return Rows(self._step.number, rows)
        done, self._step = self._step, None
        return StepDone(done.number, self._rows, done.follows, done.boundary.committed_ms)

    def close(self) -> None:
        """As the port says. Waits for a piece that is being taken."""
        self._leaving.set()
        with self._turn:
            self._closed = True
            if self._consumer is not None:
                self._consumer.close()
