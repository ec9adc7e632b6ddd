"""Replaces the processes of a pipeline that runs by new ones, node by node, while it makes steps.

An upgrade is a row of changes of the layout: each gives a node's number to another process, adds a node, or removes one
(`views/upgrades.py`). What was done and what is left stands in the newest request, so that whoever gives the command again
goes on where it was; and since the coordinator makes the change, one that is under way goes on while nobody follows it.
"""

from __future__ import annotations

from kcontrol.apps.agent.resizing import placed_job
from kcontrol.apps.live_layout import is_at_work, withdraw
from kcontrol.apps.new_processes import check_hosts
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.upgrade_turn import (
    NodeUpgraded,
    Tell,
    UpgradeAsked,
    layout_nodes,
    make,
    until_settled,
)
from kcontrol.core.model import LayoutPhase, LayoutRequest, PipelineSpec, UpgradeWay
from kcontrol.errors import ConfigurationError, KcontrolError
from kcontrol.requests.record import NotNowError
from kcontrol.requests.resizing import ForAgents, refuse_beside_agents
from kcontrol.requests.upgrading import refused_turns
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.upgrades import (
    UpgradeTurn,
    fate_of,
    first_turn,
    next_turn,
    nodes_left,
    turn_of,
    turns,
    whole_of,
)


async def upgrade(asked: UpgradeAsked, tell: Tell) -> list[NodeUpgraded]:
    """One change after the other; those that were made by this call.

    Raises ConfigurationError: it can't be done; NotNowError: not now, or a process could not be the node; HaltedError,
    RetriableError: the pipeline was not whole again in time. What was made before stays so.
    """
    if not await is_at_work(asked.cluster, asked.pipeline):
        raise ConfigurationError(
            f"pipeline {asked.pipeline!r} does not run, so there is nothing to be done while it does: start its nodes with the "
            "new code, each in its own directory; they go on where it was stopped"
        )
    refuse_beside_agents(await placed_job(asked.cluster, asked.pipeline), ForAgents.UPGRADE)
    done: list[NodeUpgraded] = []
    turn, request = await _begun(asked, tell)
    while True:
        to_come = list(turns(asked.way, turn.left, turn.nodes_after, turn.whole, together=asked.together))
        if to_come:
            tell(f"pipeline {asked.pipeline}: {1 + len(to_come)} changes of its layout are to come", None)
        try:
            made = await make(asked, turn, request, tell)
        except KcontrolError:
            tell(_failed(turn, done), None)
            raise
        done += made.upgraded
        following = next_turn(asked.way, made.left, made.nodes, turn.whole, together=asked.together)
        request = None
        if following is None:
            return done
        turn = following


def _failed(turn: UpgradeTurn, done: list[NodeUpgraded]) -> str:
    before = ", ".join(f"{each.node} {each.change}" for each in done) or "none"
    more = ""
    if turn.nodes != turn.whole:
        more = f"; there are {turn.nodes} nodes meanwhile, and {turn.whole} once it is over"
    were = "were" if turn.others else "was"
    return (
        f"{turn} {were} not {turn.part.value} ({before} before that): put right what is said below, and give the command "
        f"again, which goes on with that; to go back, give it with the old code{more}"
    )


async def _begun(asked: UpgradeAsked, tell: Tell) -> tuple[UpgradeTurn, LayoutRequest | None]:
    """Where to begin, and the request of that if it is in the log already: with the first node, or where an upgrade of this
    way was left."""
    async with pipeline_logs(asked.cluster, asked.pipeline) as logs:
        await logs.read()
        nodes = layout_nodes(logs)
        newest = logs.view.layout_request()
        fate = LayoutPhase.DONE if newest is None else fate_of(logs.view, logs.committed, newest)
        whole = whole_of(newest, asked.way, nodes)
        asked_for = tuple(dict.fromkeys(asked.nodes))
        wrong = [node for node in asked_for if node >= whole]
        if wrong:
            raise ConfigurationError(
                f"pipeline {asked.pipeline!r} has the nodes 0 to {whole - 1}, and no node {wrong[0]}"
            )
        turn = first_turn(asked.way, asked_for, newest, fate, nodes, together=asked.together)
        if fate is None and (newest is None or not _is_of(newest, asked.way, turn)):
            raise NotNowError(
                f"pipeline {asked.pipeline!r}: another change of its layout is under way: see kcontrol status, or give it up "
                f"with kcontrol layout {asked.pipeline} --withdraw. Nothing was changed"
            )
        if newest is not None and (
            nodes != whole or nodes_left(newest, fate, asked.way, tuple(range(whole)))
        ):
            are = "are" if turn.others else "is"
            tell(f"pipeline {asked.pipeline}: goes on: {turn} {are} to be {turn.part.value}", None)
        _check(asked, turn, logs.spec(), logs.committed.step)
        made = logs.committed.assignment
        if newest is not None and made is not None and made.request_id == newest.request_id:
            await until_settled(asked, logs, made.step, before={}, but=turn.comes)
        return turn, newest if fate is None else None


def _is_of(newest: LayoutRequest, way: UpgradeWay, turn: UpgradeTurn) -> bool:
    """Whether what is under way is this very change."""
    its = turn_of(newest, turn.nodes)
    return newest.way == way and (its.part, its.node, its.others) == (turn.part, turn.node, turn.others)


def _check(asked: UpgradeAsked, turn: UpgradeTurn, spec: PipelineSpec, step: int) -> None:
    """Raise ConfigurationError if a later change can't be made, as far as that is known now. spec, step: as the pipeline is."""
    if asked.way is UpgradeWay.IN_OUT and turn.whole == 1:
        raise ConfigurationError(
            f"pipeline {asked.pipeline!r} has one node, which can't be removed before there is another: --way out-in, replace "
            "or in-place"
        )
    all_turns = [turn, *turns(asked.way, turn.left, turn.nodes_after, turn.whole)]
    refused = refused_turns(spec, step, all_turns)
    if refused:
        raise ConfigurationError(
            f"{refused}. What can be made is an upgrade that leaves the number of nodes as it is: --way replace or in-place. "
            "Nothing was changed"
        )
    if asked.starter is not None:
        check_hosts(asked.starter, asked.way, all_turns, asked.hosts)


async def withdraw_upgrade(cluster: ClusterSettings, pipeline: str) -> str:
    """Give up the change that was asked for and is not made; what is left to be said of it, or ''. Raises KcontrolError: it
    is made."""
    refuse_beside_agents(await placed_job(cluster, pipeline), ForAgents.WITHDRAWAL)
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        newest, nodes = logs.view.layout_request(), layout_nodes(logs)
    await withdraw(cluster, pipeline)
    if newest is None or not newest.way or not newest.whole or newest.whole == nodes:
        return ""
    return (
        f"pipeline {pipeline} has {nodes} nodes, and had {newest.whole} before it was upgraded: kcontrol layout {pipeline} "
        f"--nodes {newest.whole}"
    )
