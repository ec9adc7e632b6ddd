"""What commands ask Kafka before they start anything: whether it will do, where inputs end, who
coordinates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import admin as untyped_admin

from kcontrol.adapters.files.facts import files_end
from kcontrol.adapters.kafka.admin.cluster import check_cluster, ensure_topics
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.codes import DENIED_CODES
from kcontrol.adapters.kafka.client.options import confluent_options
from kcontrol.adapters.kafka.client.rights import Operation, denied
from kcontrol.adapters.kafka.client.rights import group as group_right
from kcontrol.backoff import Backoff
from kcontrol.definition.addressed import AddressedInput
from kcontrol.definition.files import FileInput
from kcontrol.definition.inputs import Input
from kcontrol.errors import ClusterError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.endings import Ends

TIMEOUT_S = 15.0

_kafka: Any = untyped_admin
"""confluent-kafka exports what is used here without types."""

_STARTING = Backoff(first_ms=100, longest_ms=100, deadline_ms=int(TIMEOUT_S * 1000))
_SETTLING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)
"""The broker has just started and is not in charge of the group yet."""


def prepare_cluster(cluster: ClusterSettings) -> int:
    """See that the cluster will do and has a control topic; returns the topic's partition count.

    Raises ClusterError or TopicError. Blocking; not for use in a coroutine.
    """
    asyncio.run(check_cluster(cluster))
    ensure_topics(cluster)
    return TopicAdmin(cluster).get(cluster.names().control_topic(), "the control topic").partitions


def input_ends(cluster: ClusterSettings, inputs: Sequence[Input]) -> Ends:
    """Where committed input ends now, by the last stable offsets; of files where their whole lines do; of generated rows the
    end of all, nothing where there is none. Raises ConfigurationError for files that are not there, TopicError for a missing
    topic, ClusterError when Kafka does not answer."""
    admin = TopicAdmin(cluster, TIMEOUT_S)
    ends: dict[tuple[str, int], int] = {}
    for input_ in inputs:
        if isinstance(input_, FileInput):
            ends[input_.name, 0] = files_end(input_.name, input_.address("", 0)[0])
            continue
        if isinstance(input_, AddressedInput):
            ends.update({(input_.name, number): end for number, end in enumerate(input_.last_ends())})
            continue
        found = admin.get(input_.topic, f"input {input_.name!r}")
        latest = admin.offsets(input_.topic, found.partitions).latest
        ends.update({(input_.name, partition): offset for partition, offset in enumerate(latest)})
    return ends


def live_coordinators(cluster: ClusterSettings, besides: str) -> int:
    """Members of the coordinators' group, those with the static name `besides` not counted. Blocking."""
    admin = _kafka.AdminClient({**confluent_options(cluster), "log_level": 0})
    group = cluster.names().coordinator_group()
    tries = _STARTING.begin()
    while True:
        try:
            found = admin.describe_consumer_groups([group], request_timeout=TIMEOUT_S)[group].result(
                TIMEOUT_S
            )
            return sum(1 for member in found.members if member.group_instance_id != besides)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            if code in DENIED_CODES:
                raise denied(cluster, group_right(group, Operation.DESCRIBE)) from error
            if code not in _SETTLING or tries.passed:
                raise _unreachable(cluster, group, error) from error
            tries.wait_blocking()
        except TimeoutError as error:
            raise _unreachable(cluster, group, error) from error


def _unreachable(cluster: ClusterSettings, group: str, error: Exception) -> ClusterError:
    return ClusterError(
        f"Kafka at {cluster.bootstrap_servers} can't be asked for the group {group!r}: {error}; see "
        "that it runs"
    )
