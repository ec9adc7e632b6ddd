"""One `kcontrol run`, from the first look at Kafka to the end of the last child process."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.apps.before_spark import check_before_spark
from kcontrol.apps.facts import input_ends, live_coordinators, prepare_cluster
from kcontrol.apps.logs import DEBUG_VARIABLE
from kcontrol.apps.phases import LOOKING, STARTING_SPARK
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.apps.supervisor.children import MAX_SHORT_LIVES, Child, Children
from kcontrol.apps.supervisor.progress import Reporter
from kcontrol.core.model import DesiredMode, NodeJoin, PipelinePhase, Status, StepBoundary
from kcontrol.core.step.offsets import paused_inputs
from kcontrol.definition.durations import duration_ms
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import ConfigurationError, HaltedError, KcontrolError, RetriableError
from kcontrol.requests.outcomes import RequestState, outcome_of
from kcontrol.requests.pipeline_requests import mode_requests
from kcontrol.requests.record import RecordedRequest, record
from kcontrol.sessions.first_to_end import first_to_end
from kcontrol.sessions.health import HangLimits
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.locks import LockedError, lock
from kcontrol.views.checkpoint_facts import checkpoint_warnings, saved_where
from kcontrol.views.endings import Ends, is_caught_up, still_to_come
from kcontrol.views.node_facts import nodes_of

LOOK_EVERY_S = 0.2
_STANDBY = "--standby"
COORDINATORS_EVERY_S = 3.0


@dataclass(frozen=True)
class RunOptions:
    """What was asked for. nodes: those to run here. own_size: how many the pipeline has,
    if not as many as the file says.
    data_dir: for the nodes' directories and the children's logs. standby: with a second process for each
    node. new: nodes that the pipeline has not yet wait until it has. instead: they wait until they are to be nodes in place
    of other processes, which another run of this directory may keep. create_outputs: see `kcontrol node`."""

    file: Path
    nodes: tuple[int, ...]
    own_size: int | None
    until_caught_up: bool
    resume: bool
    data_dir: Path
    master: str | None
    max_short_lives: int = MAX_SHORT_LIVES
    standby: bool = False
    new: bool = False
    instead: bool = False
    create_outputs: int | None = None


def shared_master(nodes: int, processors: int) -> str | None:
    """Spark's master for each of several nodes on one machine: an equal share of it. None: one node has it
    all."""
    return None if nodes == 1 else f"local[{max(1, processors // nodes)}]"


class Running:
    """Starts coordinator and nodes and follows both logs until it is caught up,
    interrupted, or something can't go on."""

    def __init__(
        self, pipeline: Pipeline, cluster: ClusterSettings, options: RunOptions, reporter: Reporter
    ) -> None:
        self._pipeline = pipeline
        self._cluster = cluster
        self._options = options
        self._reporter = reporter
        limits = HangLimits.of(duration_ms(pipeline.limits.silence_timeout))
        self._children = Children(self._tell_child, limits, options.max_short_lives)
        self._said: Status | None = None
        self._asked: RecordedRequest | None = None
        self._paused: tuple[str, ...] = ()

    async def run(self) -> None:
        """Raises ConfigurationError when another run keeps one of the nodes, HaltedError, ChildError, or whatever
        keeps the pipeline from running; KeyboardInterrupt when told to end."""
        main = asyncio.current_task()
        loop = asyncio.get_running_loop()
        interrupted = False

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            if main is not None:
                main.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt)
        try:
            await self._run()
        except asyncio.CancelledError:
            if not interrupted:
                raise
            raise KeyboardInterrupt from None
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
            await self._children.stop()

    async def _run(self) -> None:
        with ExitStack() as locks:
            for node in () if self._options.instead else self._options.nodes:
                locks.enter_context(self._lock(node))
            await self._run_alone()

    def _lock(self, node: int) -> BinaryIO:
        """Raises ConfigurationError: two of these with one node of one directory would only take it from each
        other, the one that stands by for a stopped pipeline from the one that was started to make it go on."""
        name = self._pipeline.name
        try:
            return lock(self._options.data_dir / "locks" / name / f"node-{node}")
        except LockedError as error:
            raise ConfigurationError(
                f"node {node} of pipeline {name!r} is kept by another kcontrol run here "
                f"(pid {error.holder or 'unknown'}, data directory {self._options.data_dir}): end that one "
                f"first, or let it go on, with kcontrol resume {name}"
            ) from error

    async def _run_alone(self) -> None:
        self._reporter.phase(LOOKING)
        await asyncio.to_thread(prepare_cluster, self._cluster)
        await check_before_spark(
            self._cluster, self._pipeline, makes_outputs=self._options.create_outputs is not None
        )
        ends = await asyncio.to_thread(input_ends, self._cluster, self._pipeline.inputs)
        await self._start_coordinator()
        for node in self._options.nodes:
            self._start_node(node)
        nodes = ", ".join(map(str, self._options.nodes))
        self._reporter.phase(
            f"{STARTING_SPARK} for node{'s' if len(self._options.nodes) > 1 else ''} {nodes}"
        )
        await first_to_end(self._children.watch(), self._keep_a_coordinator(), self._follow(ends))

    # --- processes ------------------------------------------------------------------------------------------

    def _start_node(self, node: int) -> None:
        """And whoever stands by for it. The one that dies comes back to stand by for the other."""
        options = self._options
        waits = ("--new",) if options.new else ("--instead",) if options.instead else ()
        command = ("node", str(options.file), "--node", str(node), *waits, *self._place())
        if not options.standby:
            self._children.add(self._child(_node_name(node), *command))
            return
        self._children.add(replace(self._child(_node_name(node), *command), again=[_STANDBY]))
        self._children.add(self._child(_standby_name(node), *command, _STANDBY))

    @property
    def _instance(self) -> str:
        return f"run-{self._pipeline.name}"

    def _place(self) -> list[str]:
        options = self._options
        master = options.master or shared_master(len(options.nodes), os.cpu_count() or 1)
        size = ["--nodes", str(options.own_size)] if options.own_size is not None else []
        if options.create_outputs is not None:
            size += ["--create-outputs", str(options.create_outputs)]
        return [
            "--work-dir",
            str(options.data_dir / "nodes"),
            *(["--master", master] if master else []),
            *size,
        ]

    def _child(self, name: str, *arguments: str) -> Child:
        debug = ["--debug"] if os.environ.get(DEBUG_VARIABLE) else []
        where = ["--bootstrap-servers", self._cluster.bootstrap_servers]
        log = self._options.data_dir / "logs" / self._pipeline.name / f"{name}.log"
        return Child(name, [*arguments, *where, *debug], log)

    async def _start_coordinator(self) -> None:
        if self._children.has("coordinator"):
            return
        if not await asyncio.to_thread(live_coordinators, self._cluster, self._instance):
            self._children.add(self._child("coordinator", "coordinator", "--instance", self._instance))

    async def _keep_a_coordinator(self) -> None:
        """One that ran elsewhere may be gone, or may have been gone already, for as long as its session
        timeout."""
        while True:
            await asyncio.sleep(COORDINATORS_EVERY_S)
            await self._start_coordinator()

    def _tell_child(self, name: str, what: str, process_id: int, code: int | None) -> None:
        how = "" if code is None else f" by signal {-code}" if code < 0 else f" with exit code {code}"
        text = f"{name}: {what}{how} (pid {process_id})"
        self._reporter.event(what, text, process=name, pid=process_id, exit_code=code)

    # --- the pipeline ---------------------------------------------------------------------------------------

    async def _follow(self, ends: Ends) -> None:
        """Show what is committed and what the status says; returns when caught up, if that was asked for."""
        async with pipeline_logs(self._cluster, self._pipeline.name) as logs:
            await self._until_submitted(logs)
            await self._want_running(logs)
            while True:
                try:
                    _, committed = await logs.read()
                except RetriableError:
                    await asyncio.sleep(LOOK_EVERY_S)
                    continue
                for logged in committed:
                    if isinstance(logged.record, StepBoundary):
                        self._reporter.step(logged.record)
                self._reporter.waiting(sum(lag.offsets for lag in logs.lags()))
                self._reporter.nodes(nodes_of(logs, round(time.time() * 1000)))
                self._look_at_status(logs)
                if self._has_joined(logs):
                    self._reporter.phase("")
                paused = self._tell_paused(logs)
                done = self._options.until_caught_up and is_caught_up(
                    logs.spec(), logs.committed, ends, paused, logs.view
                )
                if done and self._has_joined(logs):
                    _check_nothing_paused(logs, still_to_come(logs.spec(), logs.committed, ends, logs.view))
                    self._reporter.event(
                        "caught_up", f"caught up at step {logs.committed.step}", step=logs.committed.step
                    )
                    return
                await asyncio.sleep(LOOK_EVERY_S)

    async def _until_submitted(self, logs: PipelineLogs) -> None:
        """The node submits the definition, because it takes Spark to see what the queries are."""
        while True:
            try:
                if await logs.is_there():
                    break
            except RetriableError:
                pass
            await asyncio.sleep(LOOK_EVERY_S)
        _, committed = await logs.read()
        self._tell_checkpoints(logs)
        if committed:
            self._reporter.event(
                "found", f"goes on after step {logs.committed.step}", step=logs.committed.step
            )

    def _tell_checkpoints(self, logs: PipelineLogs) -> None:
        """Where state is saved, and whether that survives the loss of this machine."""
        spec = logs.spec()
        where = saved_where(spec, str(own_checkpoints(self._options.data_dir / "nodes")))
        if where:
            seconds = f"{spec.checkpoint.every_ms / 1000:g}"
            self._reporter.event(
                "checkpoints", f"state is saved every {seconds} s in {where}", location=where
            )
        for warning in checkpoint_warnings(spec, logs.committed.first):
            self._reporter.event("warning", f"warning: {warning}", warning=warning)

    async def _want_running(self, logs: PipelineLogs) -> None:
        desired, said = logs.view.desired(), logs.view.status()
        rests = desired is not None and desired.mode is not DesiredMode.RUNNING
        halted = said is not None and said.phase is PipelinePhase.HALTED
        if rests or (halted and self._options.resume):
            self._asked = await record(logs.control, mode_requests(logs.view, DesiredMode.RUNNING))

    def _tell_paused(self, logs: PipelineLogs) -> tuple[str, ...]:
        """The paused inputs; told when it begins and whenever it changes, because what is
        missing of them is missed here."""
        paused = paused_inputs(logs.spec(), logs.view)
        if paused != self._paused:
            self._paused = paused
            again = ", ".join(f"kcontrol resume-input {logs.view.pipeline} {name}" for name in paused)
            text = (
                f"paused inputs, of which no step reads anything: {', '.join(paused)} ({again})"
                if paused
                else "no input is paused"
            )
            self._reporter.event("paused_inputs", text, inputs=list(paused))
        return paused

    def _has_joined(self, logs: PipelineLogs) -> bool:
        """Whether every node started here has: only then is it known that the log agrees
        with the definition in the file."""
        joined = {x.record.process_id for x in logs.view.latest.values() if isinstance(x.record, NodeJoin)}
        return all(
            joined & self._children.process_ids(_node_name(node), _standby_name(node))
            for node in self._options.nodes
            if self._children.has(_node_name(node))
        )

    def _look_at_status(self, logs: PipelineLogs) -> None:
        """Tell what is new in the status. A stopped pipeline's nodes stand by, so that it can be made to run
        again."""
        said = logs.view.status()
        if said is None:
            return
        before = self._said
        self._said = said
        stopped = said.phase is PipelinePhase.STOPPED
        if before is None or (before.phase, before.reason) != (said.phase, said.reason):
            text = f"{said.phase.value} at step {said.step}" + (f": {said.reason}" if said.reason else "")
            text += (
                f"; kcontrol resume {said.pipeline} makes it run again, Ctrl-C ends this" if stopped else ""
            )
            self._reporter.event("status", text, phase=said.phase.value, step=said.step, reason=said.reason)
        answered = self._is_answered(logs)
        if said.phase is PipelinePhase.HALTED and self._options.until_caught_up and answered:
            raise HaltedError(f"pipeline {said.pipeline!r} has halted at step {said.step}: {said.reason}")
        if stopped and answered and self._options.until_caught_up:
            raise KcontrolError(
                f"pipeline {said.pipeline!r} was stopped at step {said.step}, before it was caught up"
            )

    def _is_answered(self, logs: PipelineLogs) -> bool:
        """Whether the status is one from after this command asked for a running pipeline, if it has."""
        asked = self._asked
        if asked is None or logs.control_offset < asked.offset:
            return asked is None
        if outcome_of(logs, asked.request_id).state is not RequestState.PENDING:
            self._asked = None
        return self._asked is None


def _node_name(node: int) -> str:
    return f"node-{node}"


def _standby_name(node: int) -> str:
    return f"node-{node}-standby"


def _check_nothing_paused(logs: PipelineLogs, left: Mapping[str, int]) -> None:
    """Raise KcontrolError if all that is missing is input of paused inputs: waiting for it would be for
    ever."""
    if not left:
        return
    name = logs.view.pipeline
    waits = ", ".join(f"{count:,} offsets of {input_}" for input_, count in left.items())
    again = ", ".join(f"kcontrol resume-input {name} {input_}" for input_ in left)
    raise KcontrolError(
        f"pipeline {name!r} is caught up at step {logs.committed.step} but for inputs that are paused: "
        f"{waits} wait; to read them: {again}"
    )
