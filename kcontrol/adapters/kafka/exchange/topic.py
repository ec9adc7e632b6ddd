"""The topic of an exchange: one partition for each writer task of each node, which nobody else ever writes."""

from __future__ import annotations

from kcontrol.adapters.kafka.admin.topics import TopicAdmin, TopicState
from kcontrol.settings.cluster import ClusterSettings


def ensure_exchange_topic(
    admin: TopicAdmin, settings: ClusterSettings, pipeline: str, exchange: str, slots: int
) -> TopicState:
    """Find, check or make the topic of an exchange, with at least so many partitions; one that has fewer is given more.

    slots: nodes * max_tasks. Blocking. Raises TopicError when it is there and can't be used, ConfigurationError for a name
    that can't be, AccessError, ClusterError.
    """
    raise NotImplementedError
