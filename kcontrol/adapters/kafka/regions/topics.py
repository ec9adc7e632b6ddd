"""The topics of regions: made if they are missing, refused if a region could not be kept in them."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.adapters.kafka.admin.cluster import find_or_make
from kcontrol.adapters.kafka.admin.fitting import check_own_topic
from kcontrol.adapters.kafka.admin.topics import COMPACTED, TopicAdmin
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.settings.cluster import ClusterSettings

_READS_AND_WRITES = (Operation.READ, Operation.WRITE)
_MADE_WITH = {
    "cleanup.policy": COMPACTED,
    "message.timestamp.type": "LogAppendTime",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}
"""A beat, or what a participant says, comes every few seconds, and only the newest counts."""


def ensure_regions_topic(settings: ClusterSettings, needs: Sequence[Operation] = _READS_AND_WRITES) -> None:
    """Blocking. Raises TopicError naming what is wrong, ClusterError when Kafka can't be reached."""
    _ensure(settings, settings.names().regions_topic(), "The topic of regions", needs)


def ensure_region_log(
    settings: ClusterSettings, region: str, needs: Sequence[Operation] = _READS_AND_WRITES
) -> None:
    """The same for the log of a region."""
    name = settings.names().region_log_topic(region)
    _ensure(settings, name, f"The log of region {region!r},", needs)


def _ensure(settings: ClusterSettings, name: str, what: str, needs: Sequence[Operation]) -> None:
    state, replication = find_or_make(TopicAdmin(settings), settings, name, what, 1, needs, _MADE_WITH)
    check_own_topic(state, what, 1, replication)
