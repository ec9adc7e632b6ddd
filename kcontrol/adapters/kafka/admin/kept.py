"""Asks Kafka what it has of topics, and for how long it keeps it. Blocking, with a deadline for each
question."""

from __future__ import annotations

import time
from collections.abc import Collection

from kcontrol.adapters.kafka.admin.topics import COMPACTED, TopicAdmin
from kcontrol.errors import ClusterError
from kcontrol.sessions.ports import Kept
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.retention import warning_ms

ASKED_ONCE_S = 5.0
"""By a command that somebody waits for."""


def kept_of(admin: TopicAdmin, topics: Collection[str]) -> dict[str, Kept | str]:
    """By topic; or why it is not known, in words."""
    found: dict[str, Kept | str] = {}
    for topic in topics:
        try:
            found[topic] = _kept(admin, topic)
        except ClusterError as error:
            found[topic] = str(error)
    return found


def kept_now(settings: ClusterSettings, topics: Collection[str]) -> dict[str, Kept | str]:
    """The same, asked once; in `ASKED_ONCE_S` for each question, or it is unknown."""
    try:
        return kept_of(TopicAdmin(settings, ASKED_ONCE_S), topics)
    except ClusterError as error:
        return dict.fromkeys(topics, str(error))


def _kept(admin: TopicAdmin, topic: str) -> Kept | str:
    state = admin.find(topic)
    if state is None:
        return f"there is no topic {topic!r}"
    deletes = state.config.get("cleanup.policy", "delete") != COMPACTED
    retention_ms = int(state.config.get("retention.ms", "-1")) if deletes else -1
    retention_bytes = int(state.config.get("retention.bytes", "-1")) if deletes else -1
    offsets = admin.offsets(topic, state.partitions)
    expiring = None
    if retention_ms >= 0:
        at_ms = time.time_ns() // 1_000_000 - retention_ms + warning_ms(retention_ms)
        expiring = admin.offsets_at(topic, offsets.latest, at_ms)
    return Kept(state.topic_id, offsets.earliest, expiring, retention_ms, retention_bytes)
