"""Another layout in the middle of chaos. The cold way: stop, `kcontrol layout`, start with another number of nodes. And the
live one: processes that wait for a place, and `kcontrol layout` while steps are made.

Anything may be hit while the pipeline is being stopped and while its layout is changed, and the commands themselves may be
killed and are then given again. Of the processes of before some are killed, some are left standing by, and some sleep through
all of it and wake up when others have made steps: none of these may do any harm, and all must end by themselves.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from subprocess import CompletedProcess

from tests.chaos.cluster import Cluster
from tests.chaos.faults import Action, Fault, draw
from tests.chaos.names import NODES, PIPELINE

COMMAND_TIMEOUT_S = 150.0
"""Of one command; a stop waits up to that long for the last step to be saved."""
CHANGE_TIMEOUT_S = 300.0
"""For a command to be given again and again until it is done."""
OLD_TIMEOUT_S = 120.0
"""For a process of the layout before to end once others make steps."""
LOOK_EVERY_S = 0.1
MAX_DELAY_S = 3.0
MAX_OUTAGE_S = 6.0
LIVE_SHARE = 0.5
"""Of the changes, those that are made while the pipeline runs."""
LIVE_TIMEOUT = "120 s"
"""A node that is new starts Spark and warms itself up before it is ready, with all processors busy."""
HIT_SHARE, KILLED_SHARE, WIPED_SHARE = 0.5, 0.3, 0.3
"""Of the stops and changes, those that meet a fault; of the changes, those whose command is killed; of the nodes, those
whose disk is lost on the way."""


class Left(StrEnum):
    """What becomes of the processes that were the pipeline's nodes."""

    KILLED = "killed"
    STANDING_BY = "left"
    ASLEEP = "asleep"


class NotDoneError(Exception):
    """A command was not carried out, however often it was given."""


class Relayout:
    """For one run. goes_on: waits until a step is committed that was begun after the call."""

    def __init__(
        self,
        cluster: Cluster,
        generator: random.Random,
        goes_on: Callable[[], None],
    ) -> None:
        self._cluster, self._random, self._goes_on = cluster, generator, goes_on
        self.nodes = NODES
        self.told = ""
        """What was done last, in a few words."""

    def change(self) -> None:
        """From a pipeline that runs to one that is about to, with another number of nodes. Raises NotDoneError."""
        nodes = self._random.choice([each for each in range(1, NODES + 1) if each != self.nodes])
        if self._random.random() < LIVE_SHARE:
            self._change_live(nodes)
            return
        left = self._random.choice(list(Left))
        self._stop()
        match left:
            case Left.KILLED:
                self._cluster.stop_nodes()
            case Left.ASLEEP:
                self._cluster.put_to_sleep()
        self._change(nodes)
        self.told, self.nodes = f"layout {self.nodes} -> {nodes}, old ones {left}", nodes
        self._start(nodes)

    def await_old_ones(self) -> None:
        """Wake up whoever sleeps; all processes of the layout before must end. Raises NotDoneError."""
        self._cluster.wake_old_ones()
        deadline = time.monotonic() + OLD_TIMEOUT_S
        while self._cluster.has_old_ones:
            if time.monotonic() > deadline:
                raise NotDoneError("a node of the layout before goes on")
            time.sleep(LOOK_EVERY_S)

    def _change_live(self, nodes: int) -> None:
        """Nobody is stopped. What a fault has ended the request with is asked for again."""
        if nodes > self.nodes:
            self._cluster.add_nodes(self.nodes, nodes)
        else:
            self._cluster.expect_left_out(nodes)
        wanted = [
            "layout",
            PIPELINE,
            "--nodes",
            str(nodes),
            "--timeout",
            LIVE_TIMEOUT,
            "--work-dir",
            str(self._cluster.disks),
        ]
        deadline = time.monotonic() + CHANGE_TIMEOUT_S
        while True:
            done = self._run(wanted, may_be_killed=True)
            if done.returncode == 0 or f"has nodes = {nodes} already" in done.stderr:
                break
            if done.returncode == 2 or time.monotonic() > deadline:
                raise NotDoneError(
                    f"the layout can't be changed to {nodes} nodes while it runs: {done.stderr}"
                )
            self._goes_on()
        self._cluster.let_go(nodes)
        self.told, self.nodes = f"layout {self.nodes} -> {nodes} while it runs", nodes

    # --- in this order --------------------------------------------------------------------------------------

    def _stop(self) -> None:
        deadline = time.monotonic() + CHANGE_TIMEOUT_S
        while True:
            done = self._run(["stop", PIPELINE, "--json", "--timeout", str(COMMAND_TIMEOUT_S - 10)])
            if done.returncode == 0 and json.loads(done.stdout)["reason"] == "":
                return
            if time.monotonic() > deadline:
                raise NotDoneError(f"the last step can't be saved: {done.stdout}{done.stderr}")
            self._run(["resume", PIPELINE], undisturbed=True)
            self._goes_on()

    def _change(self, nodes: int) -> None:
        wanted = ["layout", PIPELINE, "--nodes", str(nodes), "--work-dir", str(self._cluster.disks)]
        deadline = time.monotonic() + CHANGE_TIMEOUT_S
        while True:
            done = self._run(wanted, may_be_killed=True)
            if done.returncode == 0 or f"has nodes = {nodes} already" in done.stderr:
                return
            # 2 is bad input: nothing that another try would help.
            if done.returncode == 2 or time.monotonic() > deadline:
                raise NotDoneError(f"the layout can't be changed to {nodes} nodes: {done.stderr}")

    def _start(self, nodes: int) -> None:
        first = self._random.random() < 0.5
        if first:
            self._run(["resume", PIPELINE, "--timeout", "5"], undisturbed=True)
        lost = [node for node in range(nodes) if self._random.random() < WIPED_SHARE]
        self._cluster.start_nodes(nodes, lost)
        deadline = time.monotonic() + CHANGE_TIMEOUT_S
        while (done := self._run(["resume", PIPELINE], undisturbed=True)).returncode != 0:
            if time.monotonic() > deadline:
                raise NotDoneError(f"the pipeline does not go on with {nodes} nodes: {done.stderr}")

    # --- commands -------------------------------------------------------------------------------------------

    def _run(
        self, arguments: list[str], *, undisturbed: bool = False, may_be_killed: bool = False
    ) -> CompletedProcess[str]:
        """One command, during which something may be hit; what ends meanwhile is started again."""
        where = ["--bootstrap-servers", self._cluster.bootstrap_servers]
        command = subprocess.Popen(
            [sys.executable, "-m", "kcontrol.cli", *arguments, *where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with command:
            if may_be_killed and self._random.random() < KILLED_SHARE:
                time.sleep(self._random.uniform(0.0, MAX_DELAY_S))  # Any instant of it.
                command.kill()
            elif not undisturbed and self._random.random() < HIT_SHARE:
                self._hit()
            deadline = time.monotonic() + COMMAND_TIMEOUT_S
            while command.poll() is None:
                time.sleep(LOOK_EVERY_S)
                self._cluster.revive()
                if time.monotonic() > deadline:
                    command.kill()
            said, complained = command.communicate()
        return CompletedProcess(arguments, command.returncode, said, complained)

    def _hit(self) -> None:
        fault: Fault = draw(self._random)
        time.sleep(self._random.uniform(0.0, MAX_DELAY_S))  # Any instant of it.
        victims = self._cluster.pick(fault, self._random)
        self._cluster.hit(victims, fault.action)
        time.sleep(min(fault.outage_s, MAX_OUTAGE_S))
        if fault.action is Action.PAUSE:
            self._cluster.release(victims)
        self._cluster.revive()
