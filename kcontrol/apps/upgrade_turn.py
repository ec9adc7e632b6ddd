"""One change of an upgrade: asked for, its process started, followed until it is made, and waited for until the pipeline is
whole again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.live_layout import LOOK_EVERY_S, NumberTakenError, followed, given_up, plan_live
from kcontrol.apps.new_processes import NewProcess, Starter, host_of
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
from kcontrol.errors import HaltedError, KcontrolError, RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.holder import holder
from kcontrol.views.life import life_of
from kcontrol.views.node_facts import nodes_of
from kcontrol.views.upgrades import OVER, UpgradePart, UpgradeTurn, steps_are_due

_log = logging.getLogger("kcontrol.upgrade")

HEAR_S = 5.0
"""Who waits to be a node is heard of within this time of being asked for. If nobody is, one is started."""

Tell = Callable[[str, LayoutStatus | None], None]
"""A sentence about how far it is, and the status that it comes from, if it does."""


@dataclass(frozen=True)
class UpgradeAsked:
    """What is to be done. nodes: (): all. timeout_ms: for the process that is to be a node to be ready. settle_ms: for the
    pipeline to be whole again after each change. steps: so many must be made by then, as long as steps are due. own: where
    nodes of this machine have their own checkpoints. starter: starts the processes; None: whoever reads what is told does.
    hosts: for processes that go to another host, in this order. together: what is replaced is so in one change."""

    cluster: ClusterSettings
    pipeline: str
    way: UpgradeWay
    nodes: tuple[int, ...]
    timeout_ms: int
    settle_ms: int
    steps: int
    own: Path
    starter: Starter | None = None
    hosts: tuple[str, ...] = ()
    together: bool = False


@dataclass(frozen=True)
class NodeUpgraded:
    """What a change has made of a node. change: what became of it (`UpgradePart`). after_step: the last one before it. host,
    process_id, kcontrol: of the new process, if one has come. state_bytes: what it has of the checkpoint; moved_bytes: as much
    of it was copied to its host; -1: that is not known."""

    node: int
    change: str
    after_step: int
    host: str
    process_id: int
    kcontrol: str
    state_bytes: int
    moved_bytes: int


def layout_nodes(logs: PipelineLogs) -> int:
    """How many there are by the newest layout, which may be newer than the definition that was read."""
    made = logs.committed.assignment
    return logs.spec().nodes if made is None else made.nodes


@dataclass(frozen=True)
class TurnMade:
    """left: of the nodes that are to be upgraded, those that are not. nodes: how many there are now."""

    upgraded: tuple[NodeUpgraded, ...]
    left: tuple[int, ...]
    nodes: int


async def make(asked: UpgradeAsked, turn: UpgradeTurn, request: LayoutRequest | None, tell: Tell) -> TurnMade:
    """request: of this turn, if it is in the log already.

    Raises ConfigurationError: it can't be done; NotNowError: not now, or a process could not be the node; HaltedError,
    RetriableError: the pipeline was not whole again in time.
    """
    async with pipeline_logs(asked.cluster, asked.pipeline) as logs:
        await logs.read()
        before = {node: holder(logs, node) for node in turn.comes}
        asking = request or await _request(asked, turn)
        for node in before or (turn.node,):
            tell(_awaits(asked, logs, turn, node), None)
        if request is None:
            await logs.control.append([asking])
        starting = _Starting(asked, logs, turn, tell)
        try:
            step, ready = await _made(logs, asking, starting, tell)
        except NumberTakenError as taken:
            tell(str(taken), None)
            await logs.read()
            step, ready, before = logs.committed.step, {}, {taken.node: before[taken.node]}
        except KcontrolError:
            starting.end()
            raise
        joins = await until_settled(asked, logs, step, before=before)
        made = [
            _upgraded(turn, node, step, joins.get(node), ready.get(node)) for node in before or (turn.node,)
        ]
        for each in made:
            tell(node_text(each), None)
        left = tuple(node for node in turn.comes if node not in before)
        return TurnMade(tuple(made), (*left, *turn.left), layout_nodes(logs))


def _upgraded(
    turn: UpgradeTurn, node: int, step: int, join: NodeJoin | None, ready: LayoutReady | None
) -> NodeUpgraded:
    state = -1 if ready is None else ready.total_bytes
    return NodeUpgraded(
        node=node,
        change=turn.part.value,
        after_step=step,
        host="" if join is None else join.host,
        process_id=0 if join is None else join.process_id,
        kcontrol="" if join is None or join.environment is None else join.environment.kcontrol,
        state_bytes=state,
        moved_bytes=-1 if ready is None or state < 0 else state - ready.linked_bytes,
    )


async def _request(asked: UpgradeAsked, turn: UpgradeTurn) -> LayoutRequest:
    nodes = without = None
    replaced: tuple[int, ...] = ()
    match turn.part:
        case UpgradePart.ADD:
            nodes = turn.nodes_after
        case UpgradePart.REMOVE:
            without = turn.node
        case UpgradePart.REPLACE:
            replaced = turn.comes
    plan = await plan_live(asked.cluster, asked.pipeline, nodes, without, asked.own, replaced)
    return LayoutRequest(
        *(asked.pipeline, uuid4().hex, plan.number, plan.change.nodes, asked.timeout_ms),
        replaced=plan.replaced,
        without=turn.node if turn.renumbers else -1,
        way=asked.way.value,
        left=turn.left,
        whole=turn.whole,
    )


async def _made(
    logs: PipelineLogs, request: LayoutRequest, starting: _Starting, tell: Tell
) -> tuple[int, dict[int, LayoutReady]]:
    """The last step before it is made, and what the processes that have come have said of themselves last. Raises
    NumberTakenError, and others as `make` does."""

    def told(status: LayoutStatus) -> None:
        if status.phase not in OVER:
            tell("", status)

    try:
        status = await followed(logs, request, told, starting.look)
    except NotNowError:
        raise
    except KcontrolError:
        # Whoever would have been the node is not there, or nobody answers.
        made = await given_up(logs, request)
        if made is None:
            raise
        status = made
    if status.phase is not LayoutPhase.DONE:
        raise NotNowError(f"pipeline {request.pipeline!r}: {status.text}")
    said = {node: logs.view.layout_ready(node) for node in starting.comes}
    of_this = request.request_id
    return status.step, {
        node: one for node, one in said.items() if one is not None and one.request_id == of_this
    }


class _Starting:
    """Has the processes started that are to come, unless one is heard of that waits for that."""

    def __init__(self, asked: UpgradeAsked, logs: PipelineLogs, turn: UpgradeTurn, tell: Tell) -> None:
        """logs: as they were read before anybody can have been asked."""
        self.comes = turn.comes
        self._said = {node: logs.view.layout_ready(node) for node in turn.comes}
        self._how = "--new" if turn.part is UpgradePart.ADD else "--instead"
        self._hosts = {
            node: host_of(turn, node, asked.way, asked.hosts, _host_now(logs, turn, node))
            for node in turn.comes
        }
        self._starter, self._tell = asked.starter, tell
        self._since = time.monotonic()
        self._processes: dict[int, NewProcess] = {}

    async def look(self, logs: PipelineLogs) -> None:
        """Raises ConfigurationError: one can't be started; KcontrolError: one has ended."""
        for process in self._processes.values():
            process.check()
        if self._starter is None or time.monotonic() - self._since <= HEAR_S:
            return
        for node, said in self._said.items():
            if node not in self._processes and logs.view.layout_ready(node) == said:
                self._processes[node] = self._starter.start(node, self._how, self._hosts[node])
                self._tell(f"node {node}: started {self._processes[node].text}", None)

    def end(self) -> None:
        """What was started is not to be a node any more."""
        for process in self._processes.values():
            process.end()


def _host_now(logs: PipelineLogs, turn: UpgradeTurn, node: int) -> str:
    place = turn.place_of(node)
    join = None if place is None else holder(logs, place)
    return "" if join is None else join.host


async def until_settled(
    asked: UpgradeAsked,
    logs: PipelineLogs,
    step: int,
    *,
    before: Mapping[int, NodeJoin | None],
    but: Collection[int] = (),
) -> dict[int, NodeJoin | None]:
    """Returns once all nodes are in place by the newest layout, and steps are made again where they are due: who they are then.

    step: the last one by the layout before. before: the nodes that are to be other processes, and who they were. but: are not
    waited for. Raises HaltedError; RetriableError: not in time.
    """
    waits_for = ""
    try:
        async with asyncio.timeout(asked.settle_ms / 1000):
            while True:
                await until_deadline(logs.read, "reading the logs", _log)
                now_ms = SystemClock().now_ms()
                life = life_of(logs, now_ms)
                if life.phase == PipelinePhase.HALTED:
                    raise HaltedError(f"pipeline {asked.pipeline!r} has halted after that: {life.reason}")
                waits_for = _waits_for(asked, logs, step, now_ms, but)
                joins = {node: holder(logs, node) for node in before}
                to_join = [node for node, join in joins.items() if join is None or _same(join, before[node])]
                if to_join:
                    waits_for = f"node {', '.join(map(str, to_join))} to join"
                elif not waits_for:
                    return joins
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        raise RetriableError(
            f"pipeline {asked.pipeline!r}: its layout is another one since step {step}, and for {asked.settle_ms} ms it was "
            f"waited in vain for {waits_for}; see kcontrol status"
        ) from None


def _waits_for(asked: UpgradeAsked, logs: PipelineLogs, step: int, now_ms: int, but: Collection[int]) -> str:
    made = logs.committed.assignment
    if made is not None and logs.spec().assignment != made.number:
        return "its nodes to go on by that"
    away = [
        each.node
        for each in nodes_of(logs, now_ms)
        if each.phase not in (NodePhase.OPEN, NodePhase.RUNNING) or each.step < step
    ]
    if away and set(away) <= set(but):
        return ""
    if away:
        return f"node {', '.join(map(str, away))} to be in place"
    if logs.committed.step < step + asked.steps and steps_are_due(logs.spec(), logs.view, logs.lags()):
        return f"step {step + asked.steps}"
    return ""


def _same(join: NodeJoin, before: NodeJoin | None) -> bool:
    return before is not None and (join.host, join.process_id) == (before.host, before.process_id)


# --- what people are told -----------------------------------------------------------------------------------


def _awaits(asked: UpgradeAsked, logs: PipelineLogs, turn: UpgradeTurn, node: int) -> str:
    join = holder(logs, node)
    who = "nobody" if join is None else f"process {join.process_id} on {join.host}"
    match turn.part:
        case UpgradePart.ADD:
            what, where, how = f"node {node} is to be added", "on a host of its own", "--new"
        case UpgradePart.REPLACE:
            what, where, how = (
                f"node {node}, which is {who}, is to be another process",
                "on its new host",
                "--instead",
            )
            if asked.way is UpgradeWay.IN_PLACE:
                where = f"on {'its host' if join is None else join.host}, with the same --work-dir"
        case UpgradePart.REMOVE if turn.renumbers:
            what = f"node {node}, which is {who}, is to be removed"
            host = _host_now(logs, turn, node) or "its host"
            where = f"on {host}, with the --work-dir of node {turn.place_of(node)}, whose place it takes"
            how = "--instead"
        case _:
            return f"node {node}, which is {who}, is to be removed"
    if asked.starter is not None:
        return what
    return (
        f"{what}; unless it waits already, start the new process {where}, with the new code: kcontrol node FILE --node "
        f"{node} {how}"
    )


def node_text(made: NodeUpgraded) -> str:
    """What became of one node."""
    if not made.process_id:
        return f"node {made.node} was {made.change}, after step {made.after_step}"
    size = (
        "bytes not known"
        if made.moved_bytes < 0
        else f"{made.moved_bytes:,} of {made.state_bytes:,} bytes of state were copied"
    )
    version = f", kcontrol {made.kcontrol}" if made.kcontrol else ""
    return (
        f"node {made.node} was {made.change}, and is process {made.process_id} on {made.host}{version}, since step "
        f"{made.after_step}: {size}"
    )
