"""What commands ask Kafka before they start anything: whether it will do, where inputs end, who
coordinates."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kcontrol.adapters.files.facts import files_end
from kcontrol.adapters.kafka.admin.cluster import check_cluster, ensure_topics
from kcontrol.adapters.kafka.admin.groups import count_members
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.definition.addressed import AddressedInput
from kcontrol.definition.files import FileInput
from kcontrol.definition.inputs import Input
from kcontrol.errors import ClusterError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.endings import Ends

TIMEOUT_S = 15.0


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
    """Members of the coordinators' group, those with the static name `besides` not counted. Blocking. Raises ClusterError."""
    try:
        return asyncio.run(count_members(cluster, besides))
    except RetriableError as error:
        raise ClusterError(f"{error}; see that Kafka at {cluster.bootstrap_servers} runs") from error
