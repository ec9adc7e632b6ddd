"""The topic of an exchange: one partition for each writer task of each node, which nobody else ever writes.

Nothing is ever deleted from it but by kcontrol, when no node can need it any more. Timestamps are the broker's,
so that neither a step's time nor a host's clock rolls its segments.
"""

from __future__ import annotations

import logging

from kcontrol.adapters.kafka.admin.cluster import find_or_make
from kcontrol.adapters.kafka.admin.fitting import refuse_if_wrong
from kcontrol.adapters.kafka.admin.topics import COMPACTED, TopicAdmin, TopicState
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.settings.cluster import ClusterSettings

LEAST_MESSAGE_BYTES = 1_000_000
"""A batch of Kafka as an exchange writes it."""

_log = logging.getLogger(__name__)
_CONFIG = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
}
_NEEDS = (Operation.READ, Operation.WRITE)


def ensure_exchange_topic(
    admin: TopicAdmin, settings: ClusterSettings, pipeline: str, exchange: str, slots: int
) -> TopicState:
    """Find, check or make the topic of an exchange, with at least so many partitions; one that has fewer is given
    more.

    slots: nodes * max_tasks. Blocking. Raises TopicError when it is there and can't be used,
    ConfigurationError for a name that can't be, AccessError, ClusterError.
    """
    name = settings.names().exchange_topic(pipeline, exchange)
    what = f"The topic of exchange {exchange!r} of pipeline {pipeline!r},"
    state, replication = find_or_make(admin, settings, name, what, slots, _NEEDS, _CONFIG)
    check_exchange_topic(state, what, replication)
    for sentence in exchange_warnings(state):
        _log.warning("Pipeline %r: %s", pipeline, sentence)
    return state if state.partitions >= slots else admin.grow(name, slots)


def check_exchange_topic(state: TopicState, what: str, replication: int) -> None:
    """Refuse one that no exchange could work with. replication: the least that is good enough. Raises TopicError
    naming every setting that is wrong and its remedy."""
    wrong = []
    policy = state.config.get("cleanup.policy", "")
    if COMPACTED in policy:
        wrong.append(
            f"cleanup.policy is {policy!r} and must be 'delete', because its records have no keys (change it with "
            "kafka-configs)"
        )
    largest = int(state.config.get("max.message.bytes", LEAST_MESSAGE_BYTES))
    if largest < LEAST_MESSAGE_BYTES:
        wrong.append(
            f"max.message.bytes is {largest} and must be at least {LEAST_MESSAGE_BYTES} (change it with kafka-configs)"
        )
    refuse_if_wrong(state, what, replication, wrong)


def exchange_warnings(state: TopicState) -> list[str]:
    """A sentence for each setting by which Kafka deletes what a node may need to recover."""
    return [
        f"Exchange topic {state.name!r} has {setting}={state.config[setting]}: a node that recovers needs it from the oldest "
        f"checkpoint on; set it to -1 (kafka-configs), kcontrol deletes what is needed no more."
        for setting in ("retention.ms", "retention.bytes")
        if state.config.get(setting, "-1") != "-1"
    ]
