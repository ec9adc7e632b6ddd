"""Leaves out a node whose host is lost, while the pipeline is to run: has its number started elsewhere, which brings it to the
last step, and one node fewer asked for (`requests/lost_nodes.py`).

The request is written before anything is started, and a process that was started goes on when this one ends. So whoever gives
the command again goes on with what there is.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.layout import LayoutPlan
from kcontrol.apps.live_layout import LOOK_EVERY_S, followed, given_up, plan_live
from kcontrol.apps.new_processes import NewProcess, Starter
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.core.model import Assignment, LayoutPhase, LayoutStatus, PipelineSpec
from kcontrol.errors import ConfigurationError, KcontrolError, LeftOutError, ReplacedError
from kcontrol.requests.lost_nodes import (
    LostNode,
    is_uncertain,
    left_out_already,
    lost_node,
    refuse_gone_with_it,
    says_nothing,
    unread,
)
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.holder import holder
from kcontrol.views.life import is_silent

Tell = Callable[[str, LayoutStatus | None], None]
"""A sentence about how far it is, or the status that says so."""


class StandInError(KcontrolError):
    """What was started for the number of a lost node has ended, and the node is lost still; or that one is back."""


@dataclass(frozen=True)
class LostStarter:
    """starter: starts the number of a lost node; None: nothing is known that could. direct: what it starts is a node of this
    machine, which works in the directories of this command, and no command of a user's that may go anywhere."""

    starter: Starter | None
    direct: bool

    @property
    def names_host(self) -> bool:
        """Whether it starts on the host that it is told."""
        return self.starter is not None and self.starter.names_host


async def plan_lost(
    cluster: ClusterSettings, pipeline: str, node: int, own: Path, starts: LostStarter
) -> LayoutPlan | Assignment | None:
    """What leaving out a lost node would move; the change by which it was, if that is done; None: it is not lost, or not there.

    own: where nodes of this machine have their own checkpoints. Raises NotNowError, ConfigurationError: it can't be done, or
    not here, or not while the pipeline runs.
    """
    clock = SystemClock()
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        await logs.listen(clock)
        while is_uncertain(logs, node, clock.now_ms()):
            await asyncio.sleep(LOOK_EVERY_S)
            await logs.read()
        done = left_out_already(logs, node, clock.now_ms())
        lost = None if done is not None else lost_node(logs, node, clock.now_ms())
        if lost is None:
            return done
        refuse_gone_with_it(logs, lost)
        _refuse_elsewhere(logs.spec(), lost, starts)
        if starts.direct:
            await asyncio.to_thread(_refuse_unread, logs, lost, own)
    plan = await plan_live(cluster, pipeline, lost.nodes - 1, None, own)
    return replace(plan, lost=lost)


def _refuse_elsewhere(spec: PipelineSpec, lost: LostNode, starts: LostStarter) -> None:
    where = says_nothing(spec, lost)
    if starts.starter is None:
        raise ConfigurationError(
            f"{where}, and its number has to be started before it can be left out; on this machine no node of it was ever "
            "started: give this command where one was, or with --start 'kcontrol node FILE'. Nothing was changed"
        )
    if starts.direct and lost.place not in ("", socket.gethostname()):
        raise ConfigurationError(
            f"{where}, and node {lost.nodes - 1} is to be left out in its place, so its number has to be started on "
            f"{lost.place}: give this command there, or with --start and {{host}} in it. Nothing was changed"
        )


def _refuse_unread(logs: PipelineLogs, lost: LostNode, own: Path) -> None:
    """If the checkpoint that it is to begin with can't be read here, nor the log be run from its first step on."""
    spec, steps = logs.spec(), logs.committed
    if not spec.stateful or steps.first == 1:
        return
    if not steps.saved:
        raise unread(spec, steps, lost, "no checkpoint has any of it")
    saved = steps.saved[-1]
    # Of a layout that was changed since it may have none: what it has is in the parts of others.
    parts = [each for each in saved.parts if each.node == lost.node] or list(saved.parts)
    try:
        for part in parts:
            CheckpointStore().manifest(placed(saved.location, own), part.manifest)
    except (KcontrolError, OSError) as error:
        raise unread(spec, steps, lost, str(error)) from error


async def leave_out(
    cluster: ClusterSettings, plan: LayoutPlan, starts: LostStarter, timeout_ms: int, tell: Tell
) -> LayoutPlan:
    """Have a change made that `plan_lost` has planned; the plan, with the last step before it.

    timeout_ms: for its number to be in place and all others to be ready. Raises StandInError, ConfigurationError: its number
    could not be started; nothing was changed then, and what was asked for is withdrawn. NotNowError, RetriableError: as
    `change_live`; who has its number by then keeps it.
    """
    lost, starter = plan.lost, starts.starter
    assert lost is not None
    assert starter is not None
    request = lost.request or lost.asks(plan.pipeline, plan.number, timeout_ms)

    def told(status: LayoutStatus) -> None:
        if status.phase not in (LayoutPhase.REFUSED, LayoutPhase.GIVEN_UP):
            tell("", status)

    async with pipeline_logs(cluster, plan.pipeline) as logs:
        await logs.read()
        if lost.request is None:
            await logs.control.append([request])
        stand_in = _StandIn(logs, lost, starter, tell, direct=starts.direct)
        try:
            status = await followed(logs, request, told, stand_in.look)
        except (StandInError, ConfigurationError):
            made = await given_up(logs, request)
            if made is None:
                stand_in.end_unless_needed(logs)
                raise
            status = made
        except KcontrolError:
            stand_in.end_unless_needed(logs)
            raise
        stand_in.end_unless_needed(logs, left_out=status.phase is LayoutPhase.DONE and not lost.stays)
    if status.phase is not LayoutPhase.DONE:
        raise NotNowError(f"pipeline {plan.pipeline!r}: {status.text}")
    return replace(plan, step=status.step, copied_bytes=status.total_bytes)


class _StandIn:
    """The process that is to have the number of a lost node, once it is needed."""

    def __init__(
        self, logs: PipelineLogs, lost: LostNode, starter: Starter, tell: Tell, *, direct: bool
    ) -> None:
        """direct: what the starter starts is the node itself."""
        self._lost, self._starter, self._tell, self._direct = lost, starter, tell, direct
        self._before = holder(logs, lost.node)
        self._process: NewProcess | None = None

    async def look(self, logs: PipelineLogs) -> None:
        """Raises StandInError: it has ended, or is not needed; ConfigurationError: it can't be started."""
        lost, process = self._lost, self._process
        is_lost = is_silent(logs, lost.node, SystemClock().now_ms())
        own = holder(logs, lost.node)
        if process is None:
            if is_lost:
                self._start()
        elif lost.stays and not is_lost and own is not None and own.host == lost.host != lost.place:
            raise StandInError(
                f"node {lost.node} is there again, as process {own.process_id} on {own.host}. Nothing was changed; ask again"
            )
        elif process.exit_code not in (None, LeftOutError.exit_code, ReplacedError.exit_code) and is_lost:
            raise StandInError(
                f"node {lost.node} could not be started: {_why_ended(process)}. Nothing was changed"
            )

    def _start(self) -> None:
        lost = self._lost
        self._process = self._starter.start(lost.node, "--instead", lost.place or socket.gethostname())
        what = (
            f"runs {lost.again} steps again behind step {lost.begins_at}" if lost.again else "takes its place"
        )
        then = f"It stays, and node {lost.nodes - 1} ends" if lost.stays else "It is left out then, and ends"
        self._tell(
            f"node {lost.node} ({lost.who}) says nothing: started {self._process.text}. It {what}. {then}",
            None,
        )

    def end_unless_needed(self, logs: PipelineLogs, *, left_out: bool = False) -> None:
        """Of what waits for a number that somebody else has, or that there is no more; who has it goes on."""
        process = self._process
        if process is None or process.ended:
            return
        own = holder(logs, self._lost.node)
        is_it = own is not None and (
            own != self._before if not self._direct else own.process_id == process.pid
        )
        if left_out or not is_it:
            process.end()
        else:
            self._tell(f"node {self._lost.node} goes on as {process.text}", None)


def _why_ended(process: NewProcess) -> str:
    try:
        process.check()
    except KcontrolError as error:
        return str(error)
    return f"{process.text} has ended"
