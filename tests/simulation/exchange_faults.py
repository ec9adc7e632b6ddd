"""What may go wrong where rows are exchanged within a step, one function a fault; as in faults.py."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kcontrol.core.model import Written
from kcontrol.core.node.table import NodeStage
from tests.simulation.faults import MOST_COORDINATORS, Fault
from tests.simulation.fleet import Fleet
from tests.simulation.node_actor import NodeActor


def _node_at(fleet: Fleet, stage: NodeStage) -> NodeActor | None:
    found = [node for node in fleet.nodes if node is not None and node.state.at is stage]
    return found[int(fleet.random.random() * len(found))] if found else None


def node_killed_between_stages(fleet: Fleet, counts: Counter[str]) -> bool:
    node = _node_at(fleet, NodeStage.AWAITING)
    if node is None:
        return False
    fleet.kill_node(node.number)
    if fleet.random.random() < 0.7:
        fleet.start_node(node.number)
    return True


def node_killed_in_a_later_stage(fleet: Fleet, counts: Counter[str]) -> bool:
    node = _node_at(fleet, NodeStage.RECEIVING)
    if node is None:
        return False
    fleet.kill_node(node.number)
    fleet.start_node(node.number)
    return True


def takeover_between_stages(fleet: Fleet, counts: Counter[str]) -> bool:
    if _node_at(fleet, NodeStage.AWAITING) is None or len(fleet.coordinators) >= MOST_COORDINATORS:
        return False
    fleet.assign(0)
    return True


def coordinator_killed_between_stages(fleet: Fleet, counts: Counter[str]) -> bool:
    if _node_at(fleet, NodeStage.AWAITING) is None:
        return False
    fleet.kill_coordinator(fleet.coordinators[-1])
    return True


def report_of_a_stage_lost(fleet: Fleet, counts: Counter[str]) -> bool:
    """It never comes to be in the log."""
    for node in fleet.nodes:
        for index, effect in enumerate(node.effects if node is not None else ()):
            kept = tuple(one for one in effect.records if not (isinstance(one, Written) and one.early))
            if node is not None and len(kept) < len(effect.records):
                node.effects[index] = replace(effect, records=kept)
                return True
    return False


def report_of_a_stage_again(fleet: Fleet, counts: Counter[str]) -> bool:
    """Doubled, late, of an older token or of an older life: any that ever was."""
    reports = [
        one.record
        for one in fleet.world.control
        if one is not None and isinstance(one.record, Written) and one.record.early
    ]
    if not reports:
        return False
    newest = fleet.random.random() < 0.5
    choices = reports[-4:] if newest else reports
    fleet.world.append(choices[int(fleet.random.random() * len(choices))])
    return True


def report_of_a_stage_delayed_to_one_node(fleet: Fleet, counts: Counter[str]) -> bool:
    """It alone reads on later, while its peers go on to the next stage."""
    node = _node_at(fleet, NodeStage.AWAITING)
    if node is None:
        return False
    node.reader.deaf_until = fleet.world.events + 5 + int(fleet.random.random() * 60)
    return True


def row_lost_in_a_fetch(fleet: Fleet, counts: Counter[str]) -> bool:
    """As after an unclean leader election: what was acknowledged is not there."""
    node = fleet.nodes[fleet.pick_node()]
    if node is None:
        return False
    node.engine.exchanging.loses_a_row = True
    return True


EXCHANGE_FAULTS: list[Fault] = [
    node_killed_between_stages,
    node_killed_in_a_later_stage,
    takeover_between_stages,
    coordinator_killed_between_stages,
    report_of_a_stage_lost,
    report_of_a_stage_again,
    report_of_a_stage_delayed_to_one_node,
    row_lost_in_a_fetch,
]
