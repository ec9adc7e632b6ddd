"""Which topics are not as safe as a pipeline needs that claims exactly once: decided from
what the cluster says of them.

Exactly once rests on Kafka keeping what it has acknowledged: three replicas, two of which must have a record
before it counts, and no leader that has not got it. Of kcontrol's own topics nothing but what compaction
removes may go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SAFE_REPLICATION = 3
SAFE_IN_SYNC = 2
TRANSACTIONS = "__transaction_state"
"""Kafka's own topic, in which the state of every transaction is."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What counts for the safety of a topic: `min.insync.replicas`,
    `unclean.leader.election.enable`, `cleanup.policy`."""

    min_in_sync: int
    unclean_election: bool
    cleanup: str


@dataclass(frozen=True, slots=True)
class TopicSafety:
    """A topic as the cluster has it.

    what: such as "the control topic". compacted: whether only compaction may remove from it. replication: of
    its least replicated partition. settings: None if they can't be known, for the reason in `unknown`.
    """

    what: str
    name: str
    compacted: bool
    replication: int
    settings: TopicSettings | None
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class KnownSafety:
    """What is known of a pipeline's topics. sentences: what is not safe about them, or can't be looked at.
    age_ms: since Kafka answered; None if it never has."""

    sentences: tuple[str, ...] = ()
    age_ms: int | None = None


def unsafe(brokers: int, topics: Sequence[TopicSafety]) -> list[str]:
    """A sentence for each thing that is not safe, with the remedy. With one broker it is one sentence about
    that."""
    said = (
        ["one broker: a lost disk loses the log, and all that is not saved elsewhere"] if brokers == 1 else []
    )
    for topic in topics:
        said += [f"{topic.what} {topic.name!r} {what}" for what in _of(brokers, topic)]
    return said


def _of(brokers: int, topic: TopicSafety) -> Iterator[str]:
    wanted = min(SAFE_REPLICATION, brokers)
    if topic.replication < wanted:
        yield (
            f"is replicated {_times(topic.replication)}: what a lost broker had alone is lost; with "
            f"{brokers} brokers let it be {_times(wanted)} (kafka-reassign-partitions.sh)"
        )
    if topic.settings is None:
        yield f"may be unsafe: its settings can't be looked at ({topic.unknown})"
        return
    in_sync = topic.settings.min_in_sync
    if topic.replication >= SAFE_REPLICATION and in_sync < SAFE_IN_SYNC:
        yield (
            f"has min.insync.replicas={in_sync}: what a single broker has acknowledged is lost with it; set "
            f"it to {SAFE_IN_SYNC} (kafka-configs.sh)"
        )
    if brokers > 1 and topic.replication > 1 and in_sync >= topic.replication:
        yield (
            f"has min.insync.replicas={in_sync} and as many replicas: it takes no write while any broker is "
            f"away; set it to {topic.replication - 1} (kafka-configs.sh)"
        )
    if topic.settings.unclean_election:
        yield (
            "has unclean.leader.election.enable=true: a leader may lack what was acknowledged, also the "
            "end of a transaction; set it to false (kafka-configs.sh)"
        )
    if topic.compacted and topic.settings.cleanup != "compact":
        yield (
            f"has cleanup.policy={topic.settings.cleanup}: records that are needed would be deleted; set it "
            "to compact (kafka-configs.sh)"
        )


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
