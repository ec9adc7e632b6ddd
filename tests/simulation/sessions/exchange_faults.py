"""What may go wrong where rows are exchanged within a step, around the real sessions; as in faults.py."""

from __future__ import annotations

from kcontrol.core.model import Written
from kcontrol.core.node.table import NodeStage
from tests.simulation.sessions.faults import Fault, kill
from tests.simulation.sessions.fleet import SessionsFleet
from tests.simulation.sessions.processes import NodeProcess


def _node_at(fleet: SessionsFleet, stage: NodeStage) -> NodeProcess | None:
    found = [node for node in fleet.nodes if node is not None and node.state and node.state.at is stage]
    return found[int(fleet.random.random() * len(found))] if found else None


def node_killed_between_stages(fleet: SessionsFleet) -> bool:
    return kill(fleet, _node_at(fleet, NodeStage.AWAITING))


def node_killed_in_a_later_stage(fleet: SessionsFleet) -> bool:
    return kill(fleet, _node_at(fleet, NodeStage.RECEIVING))


def takeover_between_stages(fleet: SessionsFleet) -> bool:
    if _node_at(fleet, NodeStage.AWAITING) is None:
        return False
    fleet.assign()
    return True


def node_deaf_between_stages(fleet: SessionsFleet) -> bool:
    """Its peers go on to the next stage, and it hears of it later."""
    node = _node_at(fleet, NodeStage.AWAITING)
    if node is None:
        return False
    node.line("control").deaf_until = fleet.loop.time() + 4 * fleet.random.random()
    return True


def report_of_a_stage_again(fleet: SessionsFleet) -> bool:
    """Late, of an older token or of an older life: any that ever was."""
    world = fleet.world
    reports = [
        one.record
        for one in world.control
        if one is not None and isinstance(one.record, Written) and one.record.early
    ]
    if not reports:
        return False
    world.append(reports[int(fleet.random.random() * len(reports))])
    fleet.network.notify()
    return True


def row_lost_in_a_fetch(fleet: SessionsFleet) -> bool:
    node = fleet.nodes[fleet.pick_node()]
    if node is None or node.engine is None:
        return False
    node.engine.inner.exchanging.loses_a_row = True
    return True


EXCHANGE_FAULTS: list[Fault] = [
    node_killed_between_stages,
    node_killed_in_a_later_stage,
    takeover_between_stages,
    node_deaf_between_stages,
    report_of_a_stage_again,
    row_lost_in_a_fetch,
]
