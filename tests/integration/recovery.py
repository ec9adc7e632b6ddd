"""One pipeline with its coordinator and node as processes of their own, for tests that kill them."""

from __future__ import annotations

import secrets
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired

import psutil

from tests.support.orders import PIPELINE_FILE, Orders
from tests.support.processes import KcontrolProcess

PATIENCE_S = 150.0
"""For anything that a busy machine of two cores may take its time for; nothing is asserted about time."""


@dataclass
class Stage:
    """The processes of one test."""

    orders: Orders
    directory: Path
    stack: ExitStack
    began: float = field(default_factory=time.monotonic)
    log: list[tuple[str, float]] = field(default_factory=list)
    checkpoints: str = ""
    """Where the pipeline's state is saved; nowhere by default."""
    checkpoint_every: str = "1 h"
    silence_timeout: str = "60 s"
    plan_once: bool = True

    def coordinator(self, number: int = 0, crash_at: str = "", instance: str = "test") -> KcontrolProcess:
        """A coordinator. All of one `instance` name are the same member of the group: one after the other
        only."""
        member = ["--instance", f"{self.orders.name}-{instance}"] if instance else []
        return self._start(f"coordinator-{number}", crash_at, "coordinator", *member)

    def node(
        self, number: int = 0, crash_at: str = "", break_on: str = "", placement: str = ""
    ) -> KcontrolProcess:
        """An incarnation of node 0."""
        where = ["--work-dir", str(self.directory / "work"), "--master", "local[2]"]
        where += ["--placement", placement] if placement else []
        return self._start(f"node-{number}", crash_at, "node", str(PIPELINE_FILE), *where, break_on=break_on)

    def coordinator_dies_at(
        self, points: Sequence[str], records: int, ask: Callable[[], object] = lambda: None
    ) -> KcontrolProcess:
        """One coordinator after the other, each killed at its point while new records come; returns one that
        lives.

        ask: for what makes a coordinator come to its point.
        """
        for number, point in enumerate(points):
            self.orders.produce(records)
            doomed = self.coordinator(number=number, crash_at=point)
            ask()
            until_dead(doomed, point)
        last = self.coordinator(number=len(points))
        self.orders.produce(records)
        self.until_done()
        return last

    def saving(self) -> KcontrolProcess:
        """`kcontrol checkpoint`, which waits until the state is saved."""
        more = ("--timeout", f"{PATIENCE_S:g}")
        return self._start(f"saving-{secrets.token_hex(3)}", "", "checkpoint", self.orders.name, *more)

    def node_dies_at(self, points: Sequence[str], records: int) -> KcontrolProcess:
        """The same of node 0; returns the one that lives."""
        for number, point in enumerate(points):
            self.orders.produce(records)
            doomed = self.node(number=number, crash_at=point)
            until_dead(doomed, point)
            doomed.sweep()
        last = self.node(number=len(points))
        self.orders.produce(records)
        self.until_done()
        return last

    def wipe(self) -> None:
        """Delete the node's working directory, as if it came back on another machine."""
        shutil.rmtree(self.directory / "work")

    def until_done(self, what: str = "all that was produced is committed") -> None:
        self.orders.until_done(what, PATIENCE_S)
        self.log.append((what, round(time.monotonic() - self.began, 1)))
        print(self.log[-1])  # noqa: T201 - shown by pytest when a test fails

    def until_step(self, step: int) -> None:
        self.orders.until_status(lambda status: status.step >= step, f"step {step} is committed", PATIENCE_S)

    def _start(self, name: str, crash_at: str, *arguments: str, break_on: str = "") -> KcontrolProcess:
        module = "tests.support.crashing" if crash_at else "kcontrol.cli"
        env = {
            **self.orders.env,
            "CRASH_AT": crash_at,
            "ORDERS_BREAK_ON": break_on,
            "ORDERS_CHECKPOINTS": self.checkpoints,
            "ORDERS_CHECKPOINT_EVERY": self.checkpoint_every,
            "ORDERS_SILENCE_TIMEOUT": self.silence_timeout,
            "ORDERS_PLAN_EACH_STEP": "" if self.plan_once else "1",
            "XDG_DATA_HOME": str(self.directory / "xdg"),
        }
        process = KcontrolProcess(*arguments, log=self.directory / f"{name}.log", env=env, module=module)
        return self.stack.enter_context(process)


def until_dead(doomed: KcontrolProcess, point: str, patience_s: float = PATIENCE_S) -> None:
    """Wait until a process has ended itself at this point."""
    try:
        code = doomed.wait(patience_s)
    except TimeoutExpired:
        raise AssertionError(f"{point} was not reached:\n{doomed.text()}") from None
    assert code == -signal.SIGKILL, f"{point} was never reached:\n{doomed.text()}"


PYTHONS = ("python", "warm_daemon", "daemon")
"""Planners, the workers of tasks, and what forks them."""


def kill_descendants(node: KcontrolProcess, name: str | tuple[str, ...], number: int = signal.SIGKILL) -> int:
    """A signal to the programs whose name begins so ("java", `PYTHONS`) that a node has started,
    directly or not; returns how many."""
    killed = 0
    for each in node.descendants():
        try:
            if each.name().startswith(name):
                each.send_signal(number)
                killed += 1
        except psutil.Error:
            continue
    return killed


@contextmanager
def stage(servers: str, directory: Path, stem: str) -> Iterator[Stage]:
    """Topics of a pipeline of its own name, and room for its processes."""
    orders = Orders(servers, f"{stem}-{secrets.token_hex(3)}")
    with ExitStack() as stack:
        yield Stage(orders, directory, stack)
