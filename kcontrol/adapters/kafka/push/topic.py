"""The topic that remembers requests: compacted, so that the newest record of a request is there, and deleted from when it is
older than anybody may ask again."""

from __future__ import annotations

from kcontrol.adapters.kafka.admin.cluster import find_or_make
from kcontrol.adapters.kafka.admin.fitting import refuse_if_wrong
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.requests.push.limits import KEPT_MS
from kcontrol.settings.cluster import ClusterSettings

SHARDS = 16
"""Requests are divided among so many partitions, each with a transaction of its own; never changed afterwards."""

_NEEDS = (Operation.READ, Operation.WRITE)
_MADE_WITH = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(KEPT_MS),
    "message.timestamp.type": "LogAppendTime",
}


def ensure_pushes_topic(settings: ClusterSettings) -> None:
    """Blocking. Raises TopicError naming what is wrong, ClusterError when Kafka can't be reached."""
    name, what = settings.names().pushes_topic(), "The topic of pushes"
    state, replication = find_or_make(TopicAdmin(settings), settings, name, what, SHARDS, _NEEDS, _MADE_WITH)
    wrong = []
    kept = int(state.config.get("retention.ms", "-1"))
    if state.partitions != SHARDS:
        wrong.append(f"it has {state.partitions} partitions and must have {SHARDS} (use another prefix)")
    if "delete" in state.config.get("cleanup.policy", "") and 0 <= kept < KEPT_MS:
        wrong.append(
            f"retention.ms is {kept} and must be {KEPT_MS} or more: requests would be forgotten too soon"
        )
    if int(state.config.get("retention.bytes", "-1")) >= 0:
        wrong.append("retention.bytes must be -1: requests would be forgotten too soon")
    refuse_if_wrong(state, what, replication, wrong)
