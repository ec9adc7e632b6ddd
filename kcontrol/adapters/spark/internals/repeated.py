"""A Spark job that is run again and again on the same RDD.

`SparkContext.runJob` cleans the function that it is given, and what it wraps that in, before each job: it reads the bytes of
the classes that they are written in, `SparkContext` among them, to see what they capture. The functions of a job that is run
again are the same each time, and clean. So they are taken from the scheduler while the job runs for the first time, and given
to `DAGScheduler.runJob`, which is what `SparkContext.runJob` calls with what it has cleaned. That was a fifth of what a small
step computes in the JVM, not counting the compilation of it: see docs/decisions/096-jobs-run-again.md.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from kcontrol.adapters.spark.internals.checking import field_of
from kcontrol.errors import SparkLostError

_LOOK_EVERY_S = 0.002
MOST_TRIES = 5
"""So often the scheduler is looked at for the job; whoever is not found then is run as ever."""
_MOST_SHAPES = 64


@dataclass(frozen=True, slots=True)
class _Parts:
    """What a job was submitted with. handler: takes the results of as many partitions as that one had."""

    function: Any
    handler: Any
    site: Any


class RepeatedJob:
    """Brings the rows of some partitions of an RDD to the driver's JVM. Used by one thread at a time."""

    def __init__(self, rdd: Any, gateway: Any) -> None:
        self._rdd, self._gateway = rdd, gateway
        self._context = rdd.context()
        self._id = rdd.id()
        self._parts: dict[int, _Parts] = {}
        """By number of partitions."""
        self._tries: dict[int, int] = {}
        self._chosen: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def knows(self, count: int) -> bool:
        """Whether it knows how a job of so many partitions is submitted."""
        return count in self._parts

    def run(self, partitions: tuple[int, ...]) -> None:
        """As a job of the calling thread. Raises what the job raises; SparkLostError when Spark has been stopped."""
        array, sequence = self._choice(partitions)
        parts = self._parts.get(len(partitions))
        if parts is None:
            self._run_first(array, len(partitions))
            return
        # The scheduler of a context that was stopped takes jobs, and never runs them.
        if self._context.isStopped():
            raise SparkLostError("Spark was stopped while a step was to be run")
        properties = self._context.getLocalProperties()
        scheduler = self._context.dagScheduler()
        scheduler.runJob(self._rdd, parts.function, sequence, parts.site, parts.handler, properties)

    def _run_first(self, array: Any, count: int) -> None:
        tries = self._tries[count] = self._tries.get(count, 0) + 1
        if tries > MOST_TRIES:
            self._rdd.toJavaRDD().collectPartitions(array)
            return
        ended = threading.Event()
        looking = threading.Thread(
            target=self._learn, args=(count, ended), name="kcontrol-job-seen", daemon=True
        )
        looking.start()
        try:
            self._rdd.toJavaRDD().collectPartitions(array)
        finally:
            ended.set()
            looking.join()

    def _learn(self, count: int, ended: threading.Event) -> None:
        """Find the job while it runs."""
        while not ended.wait(_LOOK_EVERY_S):
            try:
                found = self._found()
            except Exception:  # noqa: BLE001 - the set is the scheduler's, which may change it meanwhile: looked at again
                continue
            if found is not None:
                self._parts[count] = found
                return

    def _found(self) -> _Parts | None:
        active = self._context.dagScheduler().activeJobs().toList()
        for place in range(active.size()):
            job = active.apply(place)
            stage, waiter = job.finalStage(), job.listener()
            if stage.rdd().id() == self._id:
                handler = field_of(waiter.getClass(), "resultHandler")
                return None if handler is None else _Parts(stage.func(), handler.get(waiter), job.callSite())
        return None

    def _choice(self, partitions: tuple[int, ...]) -> tuple[Any, Any]:
        """The partitions as an array of Java's and as a sequence of Scala's."""
        if partitions not in self._chosen:
            if len(self._chosen) >= _MOST_SHAPES:
                self._chosen.clear()
            view = self._gateway.jvm
            array, listed = self._gateway.new_array(view.int, len(partitions)), view.java.util.ArrayList()
            for place, partition in enumerate(partitions):
                array[place] = partition
                listed.add(partition)
            sequence = view.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()
            self._chosen[partitions] = array, sequence
        return self._chosen[partitions]
