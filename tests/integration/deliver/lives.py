"""Lives of deliverers in processes of their own, which end or are stopped at a chosen place on their way."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import psutil

from kcontrol.adapters.postgres.load import Loader
from kcontrol.adapters.postgres.record import StepRecord
from kcontrol.adapters.postgres.rows import RowRules
from kcontrol.adapters.postgres.session import DatabaseAddress, SessionLimits
from kcontrol.adapters.postgres.target import PostgresOptions, PostgresTarget
from kcontrol.apps.deliver.delivery import Delivery, DeliveryOptions
from kcontrol.apps.deliver.log_watch import LogWatch
from kcontrol.apps.deliver.progress import Progress
from kcontrol.apps.deliver.target import Target
from kcontrol.core.step.following import Delivered
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.kafka.steps_maker import PIPELINE, Rows, StepsMaker
from tests.support.processes import until

POINTS = ("connected", "taken", "begun", "merged", "numbered", "committed")
"""The arrows on a step's way into the target."""
OUTPUT, TABLE = "delays", "rows"
Put = Callable[[type, str, Any], None]
ROWS = 6
KEYS = 4

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.integration.deliver.lives"])


def outputs(step: int) -> dict[str, Rows]:
    """Of a step: JSON that names it, over both partitions; keys come again in every step."""
    return {
        OUTPUT: {
            partition: [
                b'{"step": %d, "key": %d, "value": %d}'
                % (step, 10 * partition + row % KEYS, 1000 * step + row)
                for row in range(ROWS)
            ]
            for partition in (0, 1)
        }
    }


def log_of(steps: Iterable[int], settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    """A log of these steps, each with its outputs."""
    maker = StepsMaker(settings, topic_factory)
    for step in steps:
        maker.step(step, outputs(step))
    return maker


@dataclass(frozen=True)
class Life:
    """What a deliverer is asked for. until: the step after which it ends. at: where it ends or is stopped, of POINTS,
    at the `nth` time that it gets there; '' nowhere."""

    settings: ClusterSettings
    url: str
    until: int
    keys: tuple[str, ...] = ()
    at: str = ""
    nth: int = 1
    signal: int = signal.SIGKILL
    silence_s: float = 5.0
    limits: SessionLimits = field(default_factory=lambda: SessionLimits(statement_s=30, lock_s=2))
    options: DeliveryOptions = field(
        default_factory=lambda: DeliveryOptions(poll_s=0.2, settle_s=1, longest_wait_s=0.5)
    )
    batch_rows: int = 4
    name: str = "life"

    def target(self) -> PostgresTarget:
        rules = RowRules("json", keys=self.keys)
        options = PostgresOptions(
            DatabaseAddress(self.url),
            TABLE,
            rules,
            batch_rows=self.batch_rows,
            silence_s=self.silence_s,
            limits=self.limits,
        )
        return PostgresTarget(options, PIPELINE, OUTPUT, f"{self.name}:{os.getpid()}")

    def ambush(self, act: Callable[[], object] | None = None, put: Put = setattr) -> None:
        """See AnyLife."""
        owner, method = {
            "connected": (PostgresTarget, "open"),
            "taken": (PostgresTarget, "take"),
            "begun": (Loader, "add"),
            "merged": (Loader, "finish"),
            "numbered": (StepRecord, "applied"),
            "committed": (PostgresTarget, "apply"),
        }[self.at]
        ambush(owner, method, self.nth, act or (lambda: os.kill(os.getpid(), self.signal)), put)


class Until(Progress):
    """Ends a delivery when a step is there."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self._last = step
        self.stop: Callable[[], None] = lambda: None

    def delivered(self, step: int, done: Delivered) -> None:
        super().delivered(step, done)
        self._look(step)

    def running(self, step: int) -> None:
        super().running(step)
        self._look(step)

    def _look(self, step: int) -> None:
        if step >= self._last:
            self.stop()


class AnyLife(Protocol):
    """Of a deliverer to whatever target, as `Life` has it."""

    @property
    def settings(self) -> ClusterSettings: ...

    @property
    def until(self) -> int: ...

    @property
    def options(self) -> DeliveryOptions: ...

    @property
    def at(self) -> str: ...

    def target(self) -> Target: ...

    def ambush(self, act: Callable[[], object] | None = None, put: Put = setattr) -> None:
        """Have this process end, or be stopped, where `at` says. act: what happens there instead. put: see `ambush`."""
        ...


def live(life: AnyLife, progress: Until | None = None) -> Progress:
    """In this process, until its step or its end."""
    progress = progress or Until(life.until)
    watch = LogWatch(life.settings, PIPELINE)
    delivery = Delivery(life.settings, PIPELINE, OUTPUT, life.target(), life.options, progress, watch)
    progress.stop = delivery.stop
    delivery.run()
    return progress


def start(life: AnyLife) -> BaseProcess:
    """In another process."""
    process = _context.Process(target=_child, args=(life, dict(os.environ)))
    process.start()
    return process


def ended(process: BaseProcess, timeout_s: float = 600.0) -> int:
    """Its exit code."""
    process.join(timeout_s)
    assert process.exitcode is not None, "it has not ended"
    return process.exitcode


def until_stopped(process: BaseProcess) -> None:
    """Until it has stopped itself."""
    assert process.pid is not None
    there = psutil.Process(process.pid)
    until(lambda: there.status() == psutil.STATUS_STOPPED, "the deliverer is stopped", 600)


def wake(process: BaseProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGCONT)


def _child(life: AnyLife, environment: Mapping[str, str]) -> None:
    os.environ.update(environment)  # The fork server's is that of whichever test has started it.
    if life.at:
        life.ambush()
    live(life)


def ambush(owner: type, method: str, nth: int, act: Callable[[], object], put: Put = setattr) -> None:
    """From now on this is done when a method of a class has answered for the nth time. put: how the method is replaced."""
    left, real = nth, getattr(owner, method)

    def ambushed(*arguments: Any, **named: Any) -> Any:
        nonlocal left
        answer = real(*arguments, **named)
        left -= 1
        if left == 0:
            act()
        return answer

    put(owner, method, ambushed)


def expected_rows(steps: Sequence[int]) -> list[tuple[int, int, int]]:
    """What append makes of these steps, sorted."""
    return sorted(
        (step, 10 * partition + row % KEYS, 1000 * step + row)
        for step in steps
        for partition in (0, 1)
        for row in range(ROWS)
    )


def expected_newest(step: int) -> list[tuple[int, int, int]]:
    """What upsert makes of all steps up to this one."""
    newest = {10 * partition + row % KEYS: 1000 * step + row for partition in (0, 1) for row in range(ROWS)}
    return sorted((step, key, value) for key, value in newest.items())
