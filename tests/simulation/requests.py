"""What the processes ask of the broker, as it reaches the world."""

from __future__ import annotations

from kcontrol.core.events import (
    AddPartitions,
    CheckpointCommitted,
    CommitCheckpoint,
    CommitStep,
    CoordinatorEffect,
    CoordinatorEvent,
    EndProved,
    InitProducer,
    PartitionsAdded,
    ProducerReady,
    ProveEnd,
    Publish,
    StepCommitted,
)
from kcontrol.core.log.keys import BARRIER_KEY
from kcontrol.core.model import NodeJoin, Tombstone
from tests.simulation.broker import STEPS
from tests.simulation.world import World


def publish(world: World, effect: Publish, count: int | None = None, twice: bool = False) -> None:
    """Append its first `count` records, each maybe twice."""
    everything = (*effect.records, *(Tombstone(key) for key in effect.forget))
    for record in everything[:count]:
        world.append(record)
        if twice and not isinstance(record, NodeJoin):
            world.append(record)


def perform(world: World, effect: CoordinatorEffect, now_ms: int) -> CoordinatorEvent:
    """A request to the transaction coordinator, or two: what ends a transaction is written
    before. Raises Fenced, NotTheEnd."""
    match effect:
        case InitProducer():
            return ProducerReady(*world.init_producer(), now_ms)
        case AddPartitions():
            world.add_partitions(effect.producer_epoch, effect.partitions)
            return PartitionsAdded(now_ms)
        case CommitStep():
            following = world.commit(effect.producer_epoch, effect.boundary, effect.expected_offset)
            return StepCommitted(effect.boundary.step, now_ms, following)
        case CommitCheckpoint():
            world.commit_checkpoint(
                effect.producer_epoch,
                effect.checkpoint,
                effect.forget,
                effect.expected_offset,
                effect.assignment,
            )
            return CheckpointCommitted(0 if effect.checkpoint is None else effect.checkpoint.step, now_ms)
        case ProveEnd():
            world.add_partitions(effect.producer_epoch, (STEPS,))
            world.write_last(effect.producer_epoch, Tombstone(BARRIER_KEY))
            return EndProved(now_ms)
    raise AssertionError(effect)
