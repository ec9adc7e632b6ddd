"""The attempts of one engine, one after another, and the one that was made ready for while the step before it was being
committed."""

from __future__ import annotations

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.input_check import InputCheck
from kcontrol.adapters.spark.engine.node_work import NodeWork
from kcontrol.core.model import FailureKind, StepBoundary, StepWork
from kcontrol.errors import StepFailedError


class Attempts:
    """Not safe for threads: whoever calls holds the engine's lock."""

    def __init__(self, work: NodeWork) -> None:
        self._work, self._serial = work, 0
        self._ready: AttemptLedger | None = None

    def make_ready(self, work: StepWork, now: AttemptLedger | None) -> AttemptLedger | None:
        """An attempt at what follows `now`, to read and to compute for, of which nothing is written before `next`; None: it
        does not follow that, or that has failed."""
        if (
            now is None
            or now.expected is not None
            or now.failure is not None
            or now.work.step + 1 != work.step
        ):
            return None
        self._ready = self._made(work, None, None, now.work.step, begun=False)
        return self._ready

    def next(
        self, work: StepWork, expected: StepBoundary | None, of_input: InputCheck | None, after: int
    ) -> AttemptLedger:
        """The one that was made ready for, if it is this, or another. after: the step that the queries hold. Raises
        StepFailedError: tasks are at work for what is not to be."""
        ready = self._ready
        if ready is not None and expected is None and ready.work == work:
            self._ready = None
            return ready
        if self.drop_ready():
            raise StepFailedError(FailureKind.LOST, f"step {work.step}: another attempt was begun ahead")
        return self._made(work, expected, of_input, after)

    def drop_ready(self) -> bool:
        """What was made ready for is not to be. Whether tasks are at work for it."""
        ready, self._ready = self._ready, None
        if ready is None:
            return False
        ready.cancel(f"step {ready.work.step} was made ready for, and is not to be")
        return ready.taken

    @property
    def ready_has_failed(self) -> bool:
        """What was made ready for: whoever asks for it will be told."""
        return self._ready is not None and self._ready.failure is not None

    def _made(
        self,
        work: StepWork,
        expected: StepBoundary | None,
        of_input: InputCheck | None,
        after: int,
        *,
        begun: bool = True,
    ) -> AttemptLedger:
        self._serial += 1
        own = frozenset((item.input, item.partition) for item in self._work.inputs(work))
        return AttemptLedger(
            *(self._serial, work, expected, self._work.names, own, of_input),
            stages=self._work.stages(work.layout),
            after=after,
            begun=begun,
        )
