"""Replaces the processes of a pipeline that runs by new ones, node by node, while it makes steps.

Each node is one change of the layout in which nobody owns anything else than before (`LayoutRequest.replaced`). What was done
and what is left stands in the newest request, so that whoever gives the command again goes on where it was; and since the
coordinator makes the change, one that is under way goes on while nobody follows it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.live_layout import (
    LOOK_EVERY_S,
    NumberTakenError,
    followed,
    is_at_work,
    plan_live,
    withdrawal,
)
from kcontrol.apps.new_processes import NewProcess, Starter
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.core.model import (
    LayoutPhase,
    LayoutReady,
    LayoutRequest,
    LayoutStatus,
    NodeJoin,
    NodePhase,
    PipelinePhase,
    UpgradeWay,
)
from kcontrol.core.step.offsets import paused_inputs
from kcontrol.errors import ConfigurationError, HaltedError, KcontrolError, RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.holder import holder
from kcontrol.views.life import life_of
from kcontrol.views.node_facts import nodes_of
from kcontrol.views.upgrades import OVER, fate_of, nodes_left

HEAR_S = 5.0
"""Who waits to be a node is heard of within this time of being asked for. If nobody is, one is started."""

Tell = Callable[[str, LayoutStatus | None], None]
"""A sentence about how far it is, and the status that it comes from, if it does."""


@dataclass(frozen=True)
class UpgradeAsked:
    """What is to be done. nodes: (): all. timeout_ms: for the process that is to be a node to be ready. settle_ms: for the
    pipeline to be whole again after each node. steps: so many must be made by then, as long as there is input. own: where
    nodes of this machine have their own checkpoints. starter: starts the processes; None: whoever reads what is told does."""

    cluster: ClusterSettings
    pipeline: str
    way: UpgradeWay
    nodes: tuple[int, ...]
    timeout_ms: int
    settle_ms: int
    steps: int
    own: Path
    starter: Starter | None = None


@dataclass(frozen=True)
class NodeUpgraded:
    """after_step: the last one of the process before. kcontrol: the version of the new one. state_bytes: what the node has
    of the checkpoint; moved_bytes: as much of it was copied to its host; -1: that is not known."""

    node: int
    after_step: int
    host: str
    process_id: int
    kcontrol: str
    state_bytes: int
    moved_bytes: int


@dataclass(frozen=True)
class _Turn:
    """One node. request: of it, if it is in the log already. left: the nodes after it."""

    node: int
    left: tuple[int, ...]
    request: LayoutRequest | None = None


async def upgrade(asked: UpgradeAsked, tell: Tell) -> list[NodeUpgraded]:
    """One node after the other; those that were upgraded by this call.

    Raises ConfigurationError: it can't be done; NotNowError: not now, or a process could not be the node; HaltedError,
    RetriableError: the pipeline was not whole again in time. What was upgraded before stays so.
    """
    if not await is_at_work(asked.cluster, asked.pipeline):
        raise ConfigurationError(
            f"pipeline {asked.pipeline!r} does not run, so there is nothing to be done while it does: start its nodes with the "
            "new code, each in its own directory; they go on where it was stopped"
        )
    done: list[NodeUpgraded] = []
    turn = await _begun(asked, tell)
    while True:
        try:
            done.append(await _upgraded(asked, turn, tell))
        except KcontrolError as error:
            rest = ", ".join(map(str, (turn.node, *turn.left)))
            before = ", ".join(str(each.node) for each in done) or "none"
            tell(
                f"node {turn.node} was not upgraded ({before} before it): put right what is said below, and give the command "
                f"again, which goes on with node {rest}; to go back, give it with the old code",
                None,
            )
            raise error
        if not turn.left:
            return done
        turn = _Turn(turn.left[0], turn.left[1:])


async def _begun(asked: UpgradeAsked, tell: Tell) -> _Turn:
    """Where to begin: with the first node, or where an upgrade of this way was left."""
    async with pipeline_logs(asked.cluster, asked.pipeline) as logs:
        await logs.read()
        there = range(logs.spec().nodes)
        wrong = [node for node in asked.nodes if node not in there]
        if wrong:
            raise ConfigurationError(
                f"pipeline {asked.pipeline!r} has the nodes 0 to {len(there) - 1}, and no node {wrong[0]}"
            )
        wanted = tuple(dict.fromkeys(asked.nodes)) or tuple(there)
        newest = logs.view.layout_request()
        fate = LayoutPhase.DONE if newest is None else fate_of(logs.view, logs.committed, newest)
        rest = () if newest is None else nodes_left(newest, fate, asked.way, wanted)
        if rest:
            tell(f"pipeline {asked.pipeline}: goes on with node {', '.join(map(str, rest))}", None)
        if fate is not None:
            first, *left = rest or wanted
            return _Turn(first, tuple(left))
        if newest is None or newest.replaced != rest[:1]:
            raise NotNowError(
                f"pipeline {asked.pipeline!r}: another change of its layout is under way: see kcontrol status, or give it up "
                f"with kcontrol layout {asked.pipeline} --withdraw. Nothing was changed"
            )
        return _Turn(rest[0], rest[1:], newest)


async def _upgraded(asked: UpgradeAsked, turn: _Turn, tell: Tell) -> NodeUpgraded:
    async with pipeline_logs(asked.cluster, asked.pipeline) as logs:
        await logs.read()
        request = turn.request or await _request(asked, turn)
        before = holder(logs, turn.node)
        tell(_awaits(asked, turn.node, before), None)
        if turn.request is None:
            await logs.control.append([request])
        starting = _Starting(asked, turn.node, logs.view.layout_ready(turn.node), tell)
        try:
            step, ready = await _made(logs, request, starting, tell)
        except KcontrolError:
            starting.end()
            raise
        join = await _settled(asked, logs, turn.node, step, before)
        state = -1 if ready is None else ready.total_bytes
        made = NodeUpgraded(
            *(turn.node, step, join.host, join.process_id),
            kcontrol="" if join.environment is None else join.environment.kcontrol,
            state_bytes=state,
            moved_bytes=-1 if ready is None or state < 0 else state - ready.linked_bytes,
        )
        tell(node_text(made), None)
        return made


async def _request(asked: UpgradeAsked, turn: _Turn) -> LayoutRequest:
    plan = await plan_live(asked.cluster, asked.pipeline, None, None, asked.own, (turn.node,))
    return LayoutRequest(
        *(asked.pipeline, uuid4().hex, plan.number, plan.change.nodes, asked.timeout_ms),
        replaced=(turn.node,),
        way=asked.way.value,
        left=turn.left,
    )


async def _made(
    logs: PipelineLogs, request: LayoutRequest, starting: _Starting, tell: Tell
) -> tuple[int, LayoutReady | None]:
    """The last step before another process is the node, and what that has said of itself last."""

    def told(status: LayoutStatus) -> None:
        if status.phase not in OVER:
            tell("", status)

    try:
        status = await followed(logs, request, told, starting.look)
    except NumberTakenError as taken:
        tell(str(taken), None)
        await logs.read()
        return logs.committed.step, None
    except NotNowError:
        raise
    except KcontrolError:
        # Whoever would have been the node is not there, or nobody answers.
        await logs.control.append([withdrawal(request)])
        raise
    if status.phase is not LayoutPhase.DONE:
        raise NotNowError(f"pipeline {request.pipeline!r}: {status.text}")
    ready = logs.view.layout_ready(starting.node)
    return status.step, ready if ready is not None and ready.request_id == request.request_id else None


class _Starting:
    """Has the process started that is to be a node, unless one is heard of that waits to be it."""

    def __init__(self, asked: UpgradeAsked, node: int, said: LayoutReady | None, tell: Tell) -> None:
        """said: what was said last by somebody who was to be the node."""
        self.node = node
        self._asked, self._said, self._tell = asked, said, tell
        self._since = time.monotonic()
        self._process: NewProcess | None = None

    async def look(self, logs: PipelineLogs) -> None:
        """Raises ConfigurationError: it can't be started; KcontrolError: it has ended."""
        starter, process = self._asked.starter, self._process
        if process is not None:
            process.check()
        elif (
            starter is not None
            and logs.view.layout_ready(self.node) == self._said
            and time.monotonic() - self._since > HEAR_S
        ):
            self._process = starter.start(self.node)
            self._tell(f"node {self.node}: started {self._process.text}", None)

    def end(self) -> None:
        """What was started is not to be the node any more."""
        if self._process is not None:
            self._process.end()


async def _settled(
    asked: UpgradeAsked, logs: PipelineLogs, node: int, step: int, before: NodeJoin | None
) -> NodeJoin:
    """Who is the node, once all nodes are in place and steps are made again."""
    waits_for = ""
    try:
        async with asyncio.timeout(asked.settle_ms / 1000):
            while True:
                await logs.read()
                now_ms = SystemClock().now_ms()
                life, join = life_of(logs, now_ms), holder(logs, node)
                if life.phase == PipelinePhase.HALTED:
                    raise HaltedError(
                        f"pipeline {asked.pipeline!r} has halted after node {node} was upgraded: {life.reason}"
                    )
                waits_for = _waits_for(asked, logs, step, now_ms)
                if join is None or _same(join, before):
                    waits_for = f"node {node} to join"
                elif not waits_for:
                    return join
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        raise RetriableError(
            f"pipeline {asked.pipeline!r}: node {node} is another process since step {step}, and for {asked.settle_ms} ms it "
            f"was waited in vain for {waits_for}; see kcontrol status"
        ) from None


def _waits_for(asked: UpgradeAsked, logs: PipelineLogs, step: int, now_ms: int) -> str:
    away = [
        each.node
        for each in nodes_of(logs, now_ms)
        if each.phase not in (NodePhase.OPEN, NodePhase.RUNNING) or each.step < step
    ]
    if away:
        return f"node {', '.join(map(str, away))} to be in place"
    paused = paused_inputs(logs.spec(), logs.view)
    has_input = any(lag.offsets for lag in logs.lags() if lag.input not in paused)
    if has_input and logs.committed.step < step + asked.steps:
        return f"step {step + asked.steps}"
    return ""


def _same(join: NodeJoin, before: NodeJoin | None) -> bool:
    return before is not None and (join.host, join.process_id) == (before.host, before.process_id)


# --- what people are told -----------------------------------------------------------------------------------


def _awaits(asked: UpgradeAsked, node: int, before: NodeJoin | None) -> str:
    who = "nobody" if before is None else f"process {before.process_id} on {before.host}"
    if asked.starter is not None:
        return f"node {node}, which is {who}, is to be another process"
    where = "on its new host"
    if asked.way is UpgradeWay.IN_PLACE:
        where = f"on {'its host' if before is None else before.host}, with the same --work-dir"
    return (
        f"node {node} is {who}; unless it waits already, start the new one {where}, with the new code: kcontrol node FILE "
        f"--node {node} --instead"
    )


def node_text(made: NodeUpgraded) -> str:
    """What became of one node."""
    size = (
        "bytes not known"
        if made.moved_bytes < 0
        else f"{made.moved_bytes:,} of {made.state_bytes:,} bytes of state were copied"
    )
    version = f", kcontrol {made.kcontrol}" if made.kcontrol else ""
    return f"node {made.node} is process {made.process_id} on {made.host}{version}, since step {made.after_step}: {size}"
