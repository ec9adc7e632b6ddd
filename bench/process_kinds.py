"""The processes of a pipeline that runs for the bench, told apart by what they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from examples.processes import KcontrolProcess, command_of

JVM = "JVM"
WORKER = "worker"
PLANNER_MODULE = "python_streaming_source_runner"
WORKER_MODULES = ("warm_daemon", "pyspark.daemon", "pyspark.worker")


def kind_of(command: Sequence[str]) -> str:
    """What a child of a node is, by its command line (see `command_of`)."""
    if command and Path(command[0]).name == "java":
        return JVM
    if any(PLANNER_MODULE in word for word in command):
        return "planner"
    if any(module in word for module in WORKER_MODULES for word in command):
        return WORKER
    return "other"


def processor_s(process: psutil.Process) -> float:
    """Processor time, user and system, that it has had so far. Raises psutil.Error."""
    times = process.cpu_times()
    return float(times.user + times.system)


def processes_of(coordinator: KcontrolProcess, node: KcontrolProcess) -> Iterator[tuple[str, psutil.Process]]:
    """Kind and process of all that run now: coordinator, driver (of the node), JVM, worker, planner,
    other."""
    for name, pid in (("coordinator", coordinator.pid), ("driver", node.pid)):
        try:
            root = psutil.Process(pid)
            family = {root: name} | dict.fromkeys(root.children(recursive=True), "")
        except psutil.Error:
            continue
        jvms = set()
        for process, known in family.items():
            try:
                kind = known or kind_of(command_of(process))
                if kind == JVM and process.ppid() in jvms:
                    continue  # The JVM itself, for the moment that it takes to become a command.
            except psutil.Error:
                continue  # It has just ended.
            if kind == JVM:
                jvms.add(process.pid)
            yield kind, process
