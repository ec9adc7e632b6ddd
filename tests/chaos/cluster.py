"""Everything that runs: brokers, coordinators and nodes as real processes, found, hit and started again by
kind."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from examples import processes
from examples.processes import KcontrolProcess
from kcontrol.errors import LeftOutError
from tests.chaos.brokers import NODES_GROUP, OneBroker, ThreeBrokers
from tests.chaos.faults import Action, Fault, Target, of_a_kind
from tests.chaos.names import (
    CHECKPOINTS_VARIABLE,
    EXCHANGE,
    INPUTS,
    KEPT,
    NODES,
    OUTPUT_TOPICS,
    PIPELINE,
    PREFIXES,
    STATELESS,
    TWIN,
)
from tests.chaos.network import can_cut
from tests.support.patience import HANG_S
from tests.support.processes import run_kcontrol

_MAIN = "exchanged.py" if EXCHANGE else "stateless.py" if STATELESS else "kept.py" if KEPT else "pipeline.py"
FILES = {PIPELINE: _MAIN, TWIN: "stateless_each.py"}
"""Of the pipelines, beside this one."""
TOPIC_TIMEOUT_S = HANG_S
END_TIMEOUT_S = HANG_S
SUBMIT_TIMEOUT_S = 120.0
NEW = "--new"
STANDBYS = ("a", "b")
"""Both stand by: the first to do so has the number when nobody has spoken under it for a while."""
PLANNER_MODULE = "python_streaming_source_runner"
WORKER_MODULES = ("pyspark.daemon", "warm_daemon", "pyspark.worker")


class _Node(NamedTuple):
    """A process that runs a node of a pipeline, or stands by for it."""

    pipeline: str
    number: int
    process: KcontrolProcess


class Cluster:
    """One broker or three, some coordinators, the nodes of each pipeline. `ended` counts processes that ended by themselves,
    by name. standby: two processes for each node, of which one stands by."""

    def __init__(self, home: Path, coordinators: int, brokers: int, *, standby: bool = False) -> None:
        cuts = can_cut()
        self.brokers: OneBroker | ThreeBrokers = (
            OneBroker(home) if brokers == 1 else ThreeBrokers(home, cuts=cuts)
        )
        servers = self.brokers.bootstrap_servers
        self._coordinators = [
            processes.coordinator(f"coordinator-{n}", servers, home) for n in range(coordinators)
        ]
        self._home, self.disks = home, home / "nodes"
        self._submits = standby
        self._environment = {CHECKPOINTS_VARIABLE: str(home / "checkpoints")}
        self._group = NODES_GROUP if brokers > 1 and cuts else None
        self._placed = self._made(NODES)
        self._old: list[KcontrolProcess] = []
        """Nodes of the layout before that were not stopped."""
        self._left_out_from = NODES
        self._hit: set[str] = set()
        self.ended: Counter[str] = Counter()

    def _made(self, nodes: int) -> list[_Node]:
        """So many nodes of each pipeline, not yet started."""
        which = STANDBYS if self._submits else ("",)
        return [
            self._node(pipeline, number, each, nodes)
            for pipeline in PREFIXES
            for number in range(nodes)
            for each in which
        ]

    def _node(self, pipeline: str, number: int, standby: str, nodes: int) -> _Node:
        process = processes.node(
            *(_file(pipeline), self.bootstrap_servers, self._home, number),
            environment=self._environment,
            standby=standby,
        )
        process.name = PREFIXES[pipeline] + process.name
        process.arguments = [*process.arguments, "--nodes", str(nodes)]
        process.group = self._group
        return _Node(pipeline, number, process)

    @property
    def _nodes(self) -> list[KcontrolProcess]:
        return [node.process for node in self._placed]

    @property
    def bootstrap_servers(self) -> str:
        return self.brokers.bootstrap_servers

    @property
    def processes(self) -> list[KcontrolProcess]:
        """kcontrol's own; not the broker."""
        return [*self._coordinators, *self._nodes]

    def start(self) -> None:
        """Make the user's topics and start all."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        topics = [
            NewTopic(name, partitions, self.brokers.replicas)
            for name, partitions in (INPUTS | OUTPUT_TOPICS).items()
        ]
        for future in admin.create_topics(topics).values():
            future.result(TOPIC_TIMEOUT_S)
        if self._submits:
            self._submit()
        for process in self.processes:
            process.start()

    def _submit(self) -> None:
        """Whoever stands by takes over what runs, and submits nothing."""
        where = ["--bootstrap-servers", self.bootstrap_servers]
        for pipeline in PREFIXES:
            done = run_kcontrol(
                *("submit", str(_file(pipeline)), *where), env=self._environment, timeout_s=SUBMIT_TIMEOUT_S
            )
            if done.returncode:
                raise RuntimeError(f"pipeline {pipeline} can't be submitted: {done.stderr}")

    def stop(self) -> None:
        """End all; nothing is left."""
        for process in reversed([*self.processes, *self._old]):
            process.stop()
        self.brokers.stop()

    def pick(self, fault: Fault, generator: random.Random) -> list[psutil.Process]:
        """Some living processes of each kind, if there are any: workers and planners come and go."""
        victims = []
        for target in fault.targets:
            living = [each for each in self._living(target) if each.is_running()]
            if living:
                hit = range(len(living)) if fault.everything else of_a_kind(len(living), generator)
                victims += [living[index] for index in hit]
        return victims

    def hit(self, victims: list[psutil.Process], action: Action) -> None:
        """SIGKILL or SIGSTOP, all in one go. Of a killed process it is known that it did not end by
        itself."""
        own = {process.pid: process.name for process in self.processes}
        number = signal.SIGKILL if action is Action.KILL else signal.SIGSTOP
        self._hit.update(own[each.pid] for each in victims if action is Action.KILL and each.pid in own)
        _signal_all(victims, number)
        if action is Action.KILL:
            self._await_end({each.pid for each in victims})

    def _await_end(self, killed: set[int]) -> None:
        """Of what is ours: a process that is about to end looks as if it ran, and would not be started
        again."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while self.brokers.is_there(killed) or any(
            each.is_running and each.pid in killed for each in self.processes
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"a killed process is still there after {END_TIMEOUT_S:.0f} s")
            time.sleep(0.01)

    def wipe(self, victims: list[psutil.Process]) -> None:
        """Delete the working directories of those victims that are nodes, as if they came back on another
        machine."""
        hit = {each.pid for each in victims}
        for node in self._placed:
            if node.process.pid in hit:
                self._wipe(node.pipeline, node.number)

    def _wipe(self, pipeline: str, number: int) -> None:
        for directory in self.disks.glob(f"*/{pipeline}/node-{number}"):
            shutil.rmtree(directory, ignore_errors=True)

    # --- another layout -------------------------------------------------------------------------------------

    def stop_nodes(self) -> None:
        """End all nodes."""
        for process in self._nodes:
            process.stop()
        self._placed = []

    def put_to_sleep(self) -> None:
        """Pause all nodes, whoever of them is there, and look after them no more."""
        self._stop_new()
        _signal_all([psutil.Process(each.pid) for each in self._nodes if each.is_running], signal.SIGSTOP)
        self._leave_nodes()

    def _stop_new(self) -> None:
        """Those that would wait for a place again, for ever, once they are not nodes any more."""
        for process in self._nodes:
            if NEW in process.arguments:
                process.stop()

    def _leave_nodes(self) -> None:
        self._stop_new()
        self._old += [process for process in self._nodes if process.is_running]
        self._placed = []

    def start_nodes(self, nodes: int, lost: list[int]) -> None:
        """So many, in place of those that there are, which are left alone; with empty disks those of `lost`."""
        self._leave_nodes()
        for number in lost:
            self._wipe(PIPELINE, number)
        self._placed = self._made(nodes)
        for process in self._nodes:
            process.start()

    def add_nodes(self, nodes: int, to: int) -> None:
        """Processes that wait for a place, with the numbers from `nodes` on."""
        added = self._made(to)[nodes:]
        for node in added:
            node.process.arguments = [*node.process.arguments, NEW]
            node.process.start()
        self._placed += added

    def expect_left_out(self, nodes: int) -> None:
        """Those with numbers from `nodes` on may end because the layout leaves them out, and are not started again then, nor do
        they wait for a place if they are started again before."""
        self._left_out_from = nodes
        for _, number, process in self._placed:
            if number >= nodes:
                process.arguments = [word for word in process.arguments if word != NEW]

    def let_go(self, nodes: int) -> None:
        """The layout has no others any more: they are to end by themselves."""
        gone = [node.process for node in self._placed if node.number >= nodes]
        self._old += [process for process in gone if process.is_running]
        self._placed = [node for node in self._placed if node.number < nodes]
        self._left_out_from = NODES

    def _is_left_out(self, process: KcontrolProcess) -> bool:
        numbers = {id(node.process): node.number for node in self._placed}
        ended = None if process.process is None else process.process.returncode
        return numbers.get(id(process), -1) >= self._left_out_from and ended == LeftOutError.exit_code

    def wake_old_ones(self) -> None:
        """SIGCONT for nodes of the layout before."""
        _signal_all([psutil.Process(each.pid) for each in self._old if each.is_running], signal.SIGCONT)

    @property
    def has_old_ones(self) -> bool:
        """Whether a process of the layout before is still there."""
        self._old = [process for process in self._old if process.is_running]
        return bool(self._old)

    def release(self, victims: list[psutil.Process]) -> None:
        """SIGCONT for those that are still there."""
        _signal_all(victims, signal.SIGCONT)

    def revive(self) -> list[str]:
        """Start again whatever is not running, the broker first; returns the names."""
        revived = self.brokers.revive()
        for process in self.processes:
            if not process.is_running and not self._is_left_out(process):
                if process.name not in self._hit:
                    self.ended[process.name] += 1
                self._hit.discard(process.name)
                process.start()
                revived.append(process.name)
        return revived

    def _living(self, target: Target) -> list[psutil.Process]:
        match target:
            case Target.BROKER:
                return self.brokers.processes()
            case Target.COORDINATOR:
                return [psutil.Process(process.pid) for process in self._coordinators if process.is_running]
            case Target.NODE:
                return [psutil.Process(process.pid) for process in self._nodes if process.is_running]
            case Target.JVM:
                return self._descendants(lambda command: Path(command[0]).name == "java")
            case Target.PLANNER:
                return self._descendants(lambda command: any(PLANNER_MODULE in word for word in command))
            case Target.WORKER:
                return self._descendants(_is_worker)

    def _descendants(self, matches: Callable[[list[str]], bool]) -> list[psutil.Process]:
        family: list[psutil.Process] = []
        for node in self._nodes:
            if node.is_running:
                with suppress(psutil.NoSuchProcess):
                    family += psutil.Process(node.pid).children(recursive=True)
        return sorted(
            (each for each in family if (command := _command(each)) and matches(command)),
            key=lambda each: each.pid,
        )


def _file(pipeline: str) -> Path:
    return Path(__file__).with_name(FILES[pipeline])


def _is_worker(command: list[str]) -> bool:
    """The JVM's command line names the daemon's module too."""
    return Path(command[0]).name != "java" and any(
        module in word for module in WORKER_MODULES for word in command
    )


def _command(process: psutil.Process) -> list[str]:
    """Empty if it has ended meanwhile."""
    try:
        return processes.command_of(process)
    except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
        return []


def _signal_all(victims: list[psutil.Process], number: signal.Signals) -> None:
    for each in victims:
        try:
            each.send_signal(number)
        except psutil.NoSuchProcess:
            pass
