"""Whether the cluster is one that kcontrol can be right on, and kcontrol's own topics in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from aiokafka.protocol.admin import ApiVersionRequest

from kcontrol.adapters.kafka.admin.fitting import check_own_topic
from kcontrol.adapters.kafka.admin.topics import (
    COMPACTED,
    MAX_REPLICATION,
    TooFewBrokersError,
    TopicAdmin,
    TopicState,
)
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.errors import ClusterError, ConfigurationError, RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.topic_safety import SAFE_IN_SYNC, SAFE_REPLICATION

CONTROL_PARTITIONS = 8
"""Of the control topic; never changed afterwards, because a pipeline's partition follows from it."""
STEPS_PARTITIONS = 1

_END_TXN = 26
_END_TXN_OF_4_0 = 5
_TIMEOUT_S = 20.0


async def check_cluster(settings: ClusterSettings, timeout_s: float = _TIMEOUT_S) -> None:
    """Raises ClusterError: no broker answers at the address within `timeout_s`, or one is older than 4.0.

    Since Kafka 4.0 the broker verifies that a partition is part of the transaction before it takes a write
    (KIP-890), which the step protocol relies on. EndTxn version 5 came with it.
    """
    rpc = KafkaRpc(settings)
    try:
        async with asyncio.timeout(timeout_s):
            for node in await rpc.nodes():
                answer = await rpc.send(node, ApiVersionRequest())
                newest = {key: maximum for key, _, maximum in answer.api_versions}
                if newest.get(_END_TXN, -1) < _END_TXN_OF_4_0:
                    raise ClusterError(
                        f"Kafka at {settings.bootstrap_servers}: broker {node} is older than 4.0, which "
                        "kcontrol needs because only since then every transactional write is verified "
                        "(KIP-890). Upgrade it."
                    )
    except (TimeoutError, RetriableError) as error:
        raise ClusterError(
            f"No Kafka answers at {settings.bootstrap_servers} ({error or f'waited {timeout_s:.0f} s'}). "
            "Check the address, whether the broker runs, and the client settings."
        ) from error
    finally:
        await rpc.close()


def ensure_control_topic(
    admin: TopicAdmin, settings: ClusterSettings, partitions: int = CONTROL_PARTITIONS
) -> None:
    """Create the control topic or check the one that is there. Raises TopicError."""
    name = settings.names().control_topic()
    _ensure(admin, settings, name, "The control topic", partitions, (Operation.READ, Operation.WRITE))


def ensure_steps_topic(admin: TopicAdmin, settings: ClusterSettings, pipeline: str) -> None:
    """Create a pipeline's steps topic or check the one that is there. Raises TopicError."""
    what = f"The steps topic of pipeline {pipeline!r},"
    _ensure(
        admin, settings, settings.names().steps_topic(pipeline), what, STEPS_PARTITIONS, (Operation.READ,)
    )


def ensure_topics(
    settings: ClusterSettings, pipeline: str | None = None, control_partitions: int = CONTROL_PARTITIONS
) -> None:
    """Both of the above, blocking. Raises TopicError, or ClusterError when Kafka can't be reached."""
    admin = TopicAdmin(settings)
    ensure_control_topic(admin, settings, control_partitions)
    if pipeline is not None:
        ensure_steps_topic(admin, settings, pipeline)


def _ensure(
    admin: TopicAdmin,
    settings: ClusterSettings,
    name: str,
    what: str,
    partitions: int,
    needs: Sequence[Operation],
) -> None:
    ours = {"cleanup.policy": COMPACTED, "message.timestamp.type": "LogAppendTime"}
    state, replication = find_or_make(admin, settings, name, what, partitions, needs, ours)
    check_own_topic(state, what, partitions, replication)


def find_or_make(
    admin: TopicAdmin, settings: ClusterSettings, name: str, what: str, partitions: int, needs: Sequence[Operation],
    config: Mapping[str, str],
) -> tuple[TopicState, int]:  # fmt: skip
    """One of kcontrol's own topics, as it is or as it was just made, and how many times it must be replicated.

    needs, config: what the caller is going to do with it, and what is set if it has to be made; timestamps
    should be the broker's: the witness that no process's clock can lead astray, see
    core/coordinator/clock.py. How many brokers there are, Kafka says: a topic that is made while one of three is
    away has three replicas all the same. Raises TopicError, ConfigurationError.
    """
    brokers, wanted = admin.broker_count(), settings.replication_factor
    at_least = wanted or min(MAX_REPLICATION, brokers)
    state = admin.find(name, needs)
    if state is not None:
        return state, at_least
    try:
        made = admin.create(
            name, partitions, lambda replicas: {**config, **_in_sync(settings, replicas)}, wanted
        )
    except TooFewBrokersError as error:
        raise TopicError(
            f"{what} {name!r} can't be made: replication_factor is {wanted or 1}, but the cluster has {brokers} brokers."
        ) from error
    return made, at_least


def _in_sync(settings: ClusterSettings, replication: int) -> dict[str, str]:
    """On three replicas a record counts once two have it, whatever the broker's default is."""
    in_sync = settings.min_insync_replicas or (SAFE_IN_SYNC if replication >= SAFE_REPLICATION else 0)
    if in_sync > replication:
        raise ConfigurationError(
            f"min_insync_replicas is {in_sync}, but kcontrol's topics have {replication} replicas."
        )
    return {"min.insync.replicas": str(in_sync)} if in_sync else {}
