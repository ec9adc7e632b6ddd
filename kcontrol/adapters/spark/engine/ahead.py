"""A Spark job that is begun before its step is known, while the one before is being committed.

To start a job and its Python workers takes a quarter of a small step, and needs nothing of it: the tasks of a
query that is planned once ask the driver what is theirs. So they are started as soon as those of the step
before have ended, and their question is answered when the next attempt is released, or made ready for: then they read and
compute, and wait for leave to write. Until then nothing was read: a job that is not needed ends without having done anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError, AttemptLedger
from kcontrol.adapters.spark.channel.write_job import WriteJob
from kcontrol.adapters.spark.engine.releases import Releases
from kcontrol.adapters.spark.session.conf import whole_number
from kcontrol.adapters.spark.sink.writer_plan import Ways
from kcontrol.errors import KcontrolError

WAIT_SETTING = "spark.kcontrol.aheadWaitMs"
"""How long a job that was begun ahead waits for its step before it ends; 0: none is begun ahead."""
WAIT_MS = 250
MOST_WAIT_MS = 60_000
"""A task gives its driver twice as long to answer."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a job is started with, and can't be changed afterwards. partitions: of the plan, those that are run;
    None for all."""

    ways: Ways
    partitions: tuple[int, ...] | None


def ahead_wait_s(spark: SparkSession) -> float:
    """What the session's configuration says of WAIT_SETTING. Raises SparkSettingError."""
    text = spark.conf.get(WAIT_SETTING, str(WAIT_MS)) or ""
    return whole_number(WAIT_SETTING, text, f"milliseconds from 0 to {MOST_WAIT_MS}", MOST_WAIT_MS) / 1_000


class JobAhead:
    """One such job, for the attempt at `step`. number: of the job, among those of its query.

    wait_s: how long its tasks wait for the attempt. fits: gives what the tasks must know, and the shape that the
    attempt needs; None: one that no plan has.
    """

    def __init__(
        self,
        number: int,
        step: int,
        shape: Shape,
        releases: Releases,
        wait_s: float,
        fits: Callable[[AttemptLedger], tuple[WriteJob, Shape | None]],
    ) -> None:
        self.number, self.shape = number, shape
        self._step, self._releases, self._wait_s, self._fits = step, releases, wait_s, fits
        self._lock = threading.Lock()
        self._settled = False
        self._taken: tuple[AttemptLedger, WriteJob] | None = None

    def job(self) -> WriteJob | None:
        """For its tasks, on any thread: what they work for, the same for all of them; None: they are not needed.
        Waits until that is known."""
        found = None if self._settled else self._find()
        with self._lock:
            if not self._settled:
                self._taken, self._settled = found, True
            return None if self._taken is None else self._taken[1]

    def end(self) -> AttemptLedger | None:
        """Let no task begin from now on. The attempt that they worked for, if any did."""
        with self._lock:
            self._settled = True
            return None if self._taken is None else self._taken[0]

    def _find(self) -> tuple[AttemptLedger, WriteJob] | None:
        try:
            attempt = self._releases.foreseen(self._step, self._wait_s)
            if attempt is None:
                return None
            job, shape = self._fits(attempt)
        except (AttemptCancelledError, KcontrolError):
            return None  # what it is, the query's own thread is told where it looks for the attempt
        if shape != self.shape:
            return None
        attempt.taken = True
        return attempt, job
