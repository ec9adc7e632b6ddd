"""StepConsumer: whole committed steps, one after the other, for programs that want what a step
wrote together and nothing torn.

It follows the log of steps and reads exactly the offsets that each boundary names. A plain read_committed
consumer sees the same records, but may see partitions at different steps.
"""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.apps.ask import definition
from kcontrol.apps.step_records import OutputRecord, Step, StepReader
from kcontrol.apps.step_stream import StreamedStep
from kcontrol.core.log.resets import Resets, is_known, made_by, next_after, resets_in, void_by, with_reset
from kcontrol.core.model import LoggedStep, StepBoundary
from kcontrol.errors import ConfigurationError, DamagedRecordError, InputGoneError, StepsVoidedError
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.toml import resolve_settings

__all__ = ["OutputRecord", "Step", "StepConsumer", "StreamedStep"]

_log = logging.getLogger(__name__)

MAX_BYTES_HELD = 64 << 20
LEAST_BYTES_HELD = 64 << 10


class StepConsumer:
    """Iterates over the committed steps of a pipeline, in order, each whole.

        with kcontrol.StepConsumer("flights", bootstrap_servers="127.0.0.1:9092", after_step=41) as steps:
            for step in steps:
                save(step.number, step.records["delays"])

    pipeline: its name. settings, or bootstrap_servers: of the cluster; with neither, as the command line
    finds them.
    from_step: the first step wanted; after_step: the last one that the caller has, to resume after it (0:
        from the first); with neither, the oldest step in the log.
    outputs: names of the outputs wanted; None: all. Others are not read.
    timeout: seconds to wait for the next step; the iteration then ends and can be taken
    up again. None: wait for ever.
    verify_digests: besides their counts, compare the records with the digests in the boundary. Costs time.
    holds: the last step that the caller has, where that is not the one before the first that is wanted.
    max_bytes_held: of a step that is `streamed`, about so much is in memory at a time; a single batch of
        Kafka's that is larger comes whole.

    A step is in memory whole, unless it is `streamed`.

    Steps that a reset has made void are passed over. Where some of them were returned, or `after_step` is one of them, then or
    later, the next call raises StepsVoidedError with their numbers, once; the call after it goes on with the step after the
    reset.

    Raises NotFoundError: no such pipeline or output. While iterating, InputGoneError: a wanted step is no
    longer in the log, or its records no longer in their topics. DigestMismatchError: what is there is not
    what the step wrote. DamagedRecordError: a step that was returned is recorded again. RetriableError: Kafka
    was away for more than two minutes.
    """

    def __init__(
        self,
        pipeline: str,
        settings: ClusterSettings | None = None,
        *,
        bootstrap_servers: str | None = None,
        from_step: int | None = None,
        after_step: int | None = None,
        outputs: Collection[str] | None = None,
        timeout: float | None = None,
        verify_digests: bool = False,
        max_bytes_held: int = MAX_BYTES_HELD,
        holds: int | None = None,
    ) -> None:
        if settings is not None and bootstrap_servers is not None:
            raise ConfigurationError("StepConsumer: give settings or bootstrap_servers, not both.")
        if max_bytes_held < LEAST_BYTES_HELD:
            raise ConfigurationError(
                f"StepConsumer: max_bytes_held is {max_bytes_held}; give {LEAST_BYTES_HELD} or more."
            )
        settings = settings or resolve_settings(bootstrap_servers, os.environ, Path.cwd())
        self._pipeline = pipeline
        self._timeout = timeout
        self._next = _first_step(from_step, after_step)
        self._holds = (after_step if holds is None else holds) or 0
        """What the caller has of before: a reset may make it void before anything was returned here."""
        self._resets: Resets = ()
        """Those that were read; from the first step wanted on, all that are in the log."""
        self._client = client_for(settings)
        spec = self._client.start(definition(settings, pipeline)).result()
        self._reader = StepReader(settings, spec, outputs, verify_digests=verify_digests)
        self._streaming = StepReader(
            settings, spec, outputs, verify_digests=verify_digests, max_bytes_held=max_bytes_held
        )
        self._streamed: StreamedStep | None = None
        self._steps = KafkaStepsLog(settings, pipeline)
        self._tail: AsyncIterator[list[LoggedStep]] | None = None
        self._ready: list[StepBoundary] = []
        self._returned = 0
        self._begun = False
        self._pending: Future[list[LoggedStep]] | None = None
        self._looking: Future[list[StepBoundary]] | None = None

    def __iter__(self) -> StepConsumer:
        return self

    def __next__(self) -> Step:
        self._leave_streamed()
        boundary = self._checked_boundary()
        step = self._reader.read(boundary)
        self._take(boundary)
        return step

    def streamed(self) -> Iterator[StreamedStep]:
        """The same steps from the same place on, each to be read piece by piece, so that it may be larger
        than memory:

            for step in steps.streamed():
                for output, records in step.chunks():
                    save(step.number, output, records)

        A step counts as taken when its chunks were iterated to their end. One that was left half way is given
        again, whole, by whoever begins anew: another call of this, `next` on the consumer, or another
        consumer. To go on to the next step without having read this one raises ConfigurationError;
        `step.skip()` says that it is meant.
        """
        self._leave_streamed()
        return iter(self._next_streamed, None)

    def _next_streamed(self) -> StreamedStep:
        left = self._streamed
        if left is not None and not left.is_taken:
            raise ConfigurationError(
                f"step {left.number} of pipeline {self._pipeline!r} was not read to its end: iterate over "
                "all of its chunks(), or call its skip()"
            )
        boundary = self._checked_boundary()
        follows = made_by(self._resets, boundary.step - 1)
        self._streamed = StreamedStep(self._streaming, boundary, lambda: self._take(boundary), follows)
        return self._streamed

    def _leave_streamed(self) -> None:
        if self._streamed is not None:
            self._streamed.leave()
            self._streamed = None

    def _take(self, boundary: StepBoundary) -> None:
        self._ready.pop(0)
        self._next = boundary.step + 1
        self._returned = boundary.step

    @property
    def log_id(self) -> str:
        """Kafka's id of the log of steps that is read: another one once the pipeline was deleted and made anew, and then
        a number of a step means another step. Asks Kafka. Raises RetriableError."""
        return self._client.start(
            until_deadline(self._steps.log_id, "finding the steps topic", _log)
        ).result()

    def close(self) -> None:
        """Let go of the connections. The iteration is over."""
        for under_way in (self._pending, self._looking):
            if under_way is not None:
                under_way.cancel()
        self._client.start(self._steps.close()).result()

    def __enter__(self) -> StepConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked_boundary(self) -> StepBoundary:
        boundary = self._next_boundary()
        if boundary.reset is not None:
            self._take(boundary)
            raise _voided(boundary)
        self._refuse_again(boundary)
        if self._next is not None and boundary.step > next_after(self._resets, self._next - 1):
            raise InputGoneError(
                f"Step {self._next} of pipeline {self._pipeline!r} is no longer in the log; the oldest is "
                f"{boundary.step}. Start with from_step={boundary.step} if what is missing may be."
            )
        return boundary

    def _next_boundary(self) -> StepBoundary:
        """The first boundary that is wanted and has not been returned, and is not void by anything in the log by now. Raises
        StopIteration when there is none in time."""
        current = False
        while not (self._ready and current):
            current = self._look() if self._ready else self._read()
        return self._ready[0]

    def _read(self) -> bool:
        """Read what comes next; whether that is all there is by now."""
        lay = self._pending is not None and self._pending.done()
        if self._pending is None:
            self._pending = self._client.start(
                until_deadline(self._next_chunk, "following the steps topic", _log)
            )
        pending, self._pending = self._pending, None
        try:
            chunk = pending.result(self._timeout)
        except TimeoutError:
            # What is under way goes on, and is waited for again by the next call.
            self._pending = pending
            raise StopIteration from None
        boundaries = [logged.record for logged in chunk if isinstance(logged.record, StepBoundary)]
        passed = 0 if self._returned or self._next is None else self._next
        self._ready = self._wanted([boundary for boundary in boundaries if boundary.step >= passed])
        return self._steps.at_end and not lay

    def _look(self) -> bool:
        """Look for resets behind what was read: it may lie for long before it is returned, and may be far from the end.
        True: all that there are by now. One that an earlier call has begun counts, else whoever waits for less than an
        answer takes would get nothing ever."""
        if self._looking is None:
            self._looking = self._client.start(
                until_deadline(self._steps.read_resets, "looking for resets in the steps topic", _log)
            )
        looking, self._looking = self._looking, None
        try:
            found = looking.result(self._timeout)
        except TimeoutError:
            self._looking = looking
            raise StopIteration from None
        self._ready = self._wanted(found, self._ready)
        return True

    def _wanted(
        self, boundaries: Sequence[StepBoundary], before: Sequence[StepBoundary] = ()
    ) -> list[StepBoundary]:
        """After those before, those that are not void; and of resets those that take back what was returned, or what the
        caller had before."""
        found = list(before)
        for boundary in boundaries:
            if boundary.reset is None:
                if void_by(self._resets, boundary.step) is None:
                    found.append(boundary)
                continue
            to_step = boundary.reset.to_step
            if is_known(self._resets, boundary.step):
                continue
            self._resets = with_reset(self._resets, to_step, boundary.step)
            found = [one for one in found if one.step <= to_step]
            if to_step < max(self._returned, self._holds) < boundary.step:
                found.append(boundary)
        return found

    def _refuse_again(self, boundary: StepBoundary) -> None:
        """What was returned can't be taken back, and what was recorded in its place is no next step."""
        if boundary.step <= self._returned:
            raise DamagedRecordError(
                f"Step {boundary.step} of pipeline {self._pipeline!r} was returned, and is recorded again "
                f"in the log of steps. `kcontrol repair {self._pipeline}` lists what was written twice; go "
                f"on with from_step={self._returned + 1}."
            )

    async def _next_chunk(self) -> list[LoggedStep]:
        if self._tail is None:
            if not self._begun and self._next is not None:
                await self._steps.begin_at_step(min(self._next, self._holds or self._next))
            if not self._begun:
                await self._learn_resets()
            self._begun = True
            self._tail = self._steps.tail()
        try:
            return await anext(self._tail)
        except BaseException:
            # A generator that raised is over; a new one goes on where it was.
            self._tail = None
            raise

    async def _learn_resets(self) -> None:
        """What is void already is not to be returned. Raises StepsVoidedError, once: the caller has some of it."""
        there = await self._steps.read_resets()
        self._resets = resets_in(there)
        reset = void_by(self._resets, self._holds)
        if reset is not None:
            # It was told: the next call goes on from here.
            self._holds, self._next, self._begun = reset, reset + 1, True
            raise _voided(next(one for one in there if one.step == reset))


def _voided(boundary: StepBoundary) -> StepsVoidedError:
    assert boundary.reset is not None
    return StepsVoidedError(boundary.pipeline, boundary.reset.to_step, boundary.step, boundary.reset.why)


def _first_step(from_step: int | None, after_step: int | None) -> int | None:
    if from_step is not None and after_step is not None:
        raise ConfigurationError("StepConsumer: give from_step or after_step, not both.")
    if (from_step is not None and from_step < 1) or (after_step is not None and after_step < 0):
        raise ConfigurationError(
            "StepConsumer: steps are numbered from 1; after_step=0 starts with the first."
        )
    return after_step + 1 if after_step is not None else from_step
