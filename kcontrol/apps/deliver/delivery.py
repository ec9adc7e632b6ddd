"""One delivery: steps of the log, in order, to a target, until it is told to stop or a person has to decide.

Everything passing (the target away, Kafka away, another deliverer at work) is waited out, beginning again from what the
target itself holds. Nothing is remembered here.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.apps.deliver.progress import Progress
from kcontrol.apps.deliver.target import Target
from kcontrol.apps.step_consumer import StepConsumer
from kcontrol.apps.step_stream import StreamedStep
from kcontrol.backoff import Backoff, Tries
from kcontrol.core.step.following import (
    Applied,
    LogFacts,
    PlacedRecords,
    RecordPlace,
    StepVerdict,
    judge_log,
    sentence,
    step_print,
)
from kcontrol.errors import (
    ConfigurationError,
    DeliveryHaltedError,
    KcontrolError,
    ReplacedError,
    RetriableError,
    StepsVoidedError,
    TargetAwayError,
)
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.deliver")

FIRST, NEXT = "first", "next"


@dataclass(frozen=True, slots=True)
class DeliveryOptions:
    """start: for a target to which nothing was delivered: 'first', 'next' (after the newest), or a step's number.
    resync: what was delivered is forgotten, if the target is empty. give_up_s: for how long the target may be away.
    poll_s: without a step for so long, it is looked whether all is well. settle_s: so long a log may seem to be shorter than
    what was delivered, or another one."""

    start: str = FIRST
    resync: bool = False
    give_up_s: float = 86_400.0
    poll_s: float = 2.0
    settle_s: float = 20.0
    longest_wait_s: float = 10.0
    max_bytes_held: int = 16 << 20


class Delivery:
    """Of one output to one target. `run` once."""

    def __init__(
        self,
        settings: ClusterSettings,
        pipeline: str,
        output: str,
        target: Target,
        options: DeliveryOptions,
        progress: Progress,
        watch: LogWatch,
    ) -> None:
        self._settings, self._pipeline, self._output = settings, pipeline, output
        self._target, self._options, self._progress, self._watch = target, options, progress, watch
        self._resync = options.resync
        self._stopped = threading.Event()
        self._tries: Tries | None = None

    def stop(self) -> None:
        """End `run` soon; from any thread. The step in hand is given up."""
        self._stopped.set()

    def run(self) -> None:
        """Returns when it was stopped. Raises DeliveryHaltedError and others that a person has to see to;
        TargetAwayError: the target was away for too long."""
        self._watch.begin()
        try:
            while not self._stopped.is_set():
                try:
                    self._deliver()
                except (TargetAwayError, RetriableError) as error:
                    self._wait_out(error)
                except ReplacedError as error:
                    _log.warning("%s; standing by", error)
                    self._stopped.wait(self._options.poll_s)
            self._progress.stopped()
        except KcontrolError as error:
            self._progress.halted(str(error))
            with suppress(KcontrolError):
                self._target.halted(str(error))
            raise
        finally:
            self._target.close()
            self._watch.close()

    def _wait_out(self, error: KcontrolError) -> None:
        if self._stopped.is_set():
            return
        if self._tries is None:
            wait_ms = int(self._options.longest_wait_s * 1000)
            waits = Backoff(first_ms=200, longest_ms=wait_ms, deadline_ms=int(self._options.give_up_s * 1000))
            self._tries = waits.begin()
        self._tries.check("the delivery", error, TargetAwayError)
        if self._progress.away(str(error)):
            _log.warning(
                "%s; trying again. Steps go on, and the delivery lags: by %d steps now",
                error,
                self._watch.lag_steps,
            )
        asked_s = min(getattr(error, "wait_s", 0.0), self._options.longest_wait_s)
        self._stopped.wait(max(self._tries.failed() / 1000, asked_s))

    def _deliver(self) -> None:
        self._target.open()
        log = self._watch.facts()
        # Of a target that is begun anew it does not matter what it says, nor that it can't tell.
        if self._resync or self._target.applied() is None:
            self._begin(log)
        applied = self._wait_for_turn()
        if applied is None:
            return
        log = self._refuse_other_log(applied)
        self._watch.delivered(applied.step)
        self._progress.running(applied.step)
        _log.info(
            "delivering %s of pipeline %s to %s, %s, from step %d on",
            *(self._output, self._pipeline, self._target, self._target.guarantee.value, applied.step + 1),
        )
        # The last one again, to be compared, if it is there.
        from_step = max(applied.step, log.first, 1)
        with (
            self._void_halts(),
            StepConsumer(
                self._pipeline,
                self._settings,
                from_step=from_step,
                holds=applied.step,
                outputs=[self._output],
                timeout=self._options.poll_s,
                max_bytes_held=self._options.max_bytes_held,
            ) as steps,
        ):
            self._refuse_remade(steps, log)
            while not self._stopped.is_set():
                for step in steps.streamed():
                    self._take(step, log)
                    if self._stopped.is_set():
                        return
                self._is_well()

    def _refuse_remade(self, steps: StepConsumer, log: LogFacts) -> None:
        """The pipeline may have been deleted and made anew since its log was judged. To ask which log is read pins it: nothing
        of a later one is returned. Raises RetriableError: it is judged anew."""
        found = steps.log_id
        if found != log.log_id:
            raise RetriableError(
                f"the log of steps of pipeline {self._pipeline!r} is {found} and was {log.log_id} a moment ago"
            )

    @contextmanager
    def _void_halts(self) -> Iterator[None]:
        """What was delivered of steps that a reset has made void nobody but a person can take back."""
        try:
            yield
        except StepsVoidedError as void:
            raise DeliveryHaltedError(
                f"{self._target} has been given steps up to {self._watch.given} of pipeline "
                f"{self._pipeline!r}, of which {void.first} to {void.last} are void since a reset"
                f"{f' ({void.why})' if void.why else ''}: empty the target and begin again with --resync, which leaves void "
                "steps out; or bring it back to a state of before, with the number of its last step"
            ) from void

    def _begin(self, log: LogFacts) -> None:
        start = self._options.start
        step = {FIRST: 1, NEXT: log.last + 1}.get(start) or int(start)
        if step > log.last + 1:
            raise ConfigurationError(
                f"--start {start}: pipeline {self._pipeline!r} has committed {log.last} steps; give {log.last + 1} at most"
            )
        verdict, log = self._judged(Applied(self._pipeline, log.log_id, step - 1), log)
        if verdict is StepVerdict.EXPIRED:
            raise DeliveryHaltedError(
                f"steps {step} to {log.first - 1} of pipeline {self._pipeline!r} are no longer in the log (keep_steps), so "
                f"the target can't be filled from step {step} on: --start {log.oldest} begins with the oldest that is there"
            )
        if self._resync:
            self._target.forget()
            self._resync = False
        self._target.begin(log.log_id, step - 1)

    def _judged(self, applied: Applied, log: LogFacts) -> tuple[StepVerdict, LogFacts]:
        """And the log, as far as it had to be read for that."""
        verdict = judge_log(applied, log)
        if verdict is StepVerdict.EXPIRED:
            log = self._watch.with_resets(log)
            verdict = judge_log(applied, log)
        return verdict, log

    def _wait_for_turn(self) -> Applied | None:
        """What the target holds; None: stopped."""
        told = ""
        while not self._stopped.is_set():
            applied = self._target.take()
            if applied is not None:
                return applied
            if told != self._target.held_by:
                told = self._target.held_by
                _log.info("standing by: %s delivers %s to %s", told, self._output, self._target)
            self._progress.standing_by()
            self._recovered()
            self._stopped.wait(self._options.poll_s)
        return None

    def _refuse_other_log(self, applied: Applied) -> LogFacts:
        waited = 0.0
        while True:
            verdict, log = self._judged(applied, self._watch.facts())
            if not verdict.halts:
                return log
            why = sentence(verdict, str(self._target), applied, log)
            if (
                waited >= self._options.settle_s
                or self._stopped.is_set()
                or not _may_pass(verdict, applied, log)
            ):
                raise DeliveryHaltedError(why)
            if not waited:
                _log.info("looking again for %g s: %s", self._options.settle_s, why)
            self._stopped.wait(self._options.poll_s)
            waited += self._options.poll_s

    def _take(self, step: StreamedStep, log: LogFacts) -> None:
        boundary = step.boundary
        self._watch.in_hand(boundary)
        its_print = step_print(boundary, self._output)
        done = self._target.apply(
            step.number, its_print, boundary.committed_ms, self._records(step), step.follows
        )
        if done.verdict.halts:
            raise DeliveryHaltedError(
                sentence(done.verdict, str(self._target), done.before, log, step.number)
            )
        if done.verdict is StepVerdict.DUPLICATE:
            step.skip()
        self._watch.delivered(max(step.number, done.before.step))
        self._progress.delivered(max(step.number, done.before.step), done)
        # That the last one is there again says nothing of the next one, by which the last try may have failed.
        if done.verdict is StepVerdict.NEXT:
            self._recovered()

    def _records(self, step: StreamedStep) -> PlacedRecords:
        def every() -> Iterator[tuple[bytes | None, bytes | None, RecordPlace]]:
            for _, chunk in step.chunks():
                for record in chunk:
                    if self._stopped.is_set():
                        raise TargetAwayError("stopped")
                    yield record.key, record.value, RecordPlace(record.partition, record.offset)

        return every()

    def _is_well(self) -> None:
        self._target.beat(self._watch.last)
        self._recovered()

    def _recovered(self) -> None:
        if self._tries is not None:
            _log.info("the delivery goes on after %d tries", self._tries.failures)
            self._tries = None
            self._progress.back()


def _may_pass(verdict: StepVerdict, applied: Applied, log: LogFacts) -> bool:
    """A broker may have shown an old end, or the log of a pipeline that was deleted and made anew since."""
    return verdict is StepVerdict.BEYOND or (
        verdict is StepVerdict.FOREIGN and applied.pipeline == log.pipeline
    )
