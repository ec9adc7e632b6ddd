"""The three topics of the cluster of agents: made if they are missing, refused if agents could not work with
them."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.adapters.kafka.admin.cluster import find_or_make
from kcontrol.adapters.kafka.admin.fitting import check_own_topic, refuse_if_wrong
from kcontrol.adapters.kafka.admin.topics import COMPACTED, TopicAdmin, TopicState
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.settings.cluster import ClusterSettings

_FOR_EVER = "-1"
_KEPT = {"cleanup.policy": "delete", "retention.ms": _FOR_EVER, "retention.bytes": _FOR_EVER}
_NEWEST = {
    "cleanup.policy": COMPACTED,
    "message.timestamp.type": "LogAppendTime",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
}
"""What is not the newest of its key goes soon: packages are read with all that is there, and agents beat every few seconds."""
_NEEDS = (Operation.READ, Operation.WRITE)


def ensure_cluster_topics(settings: ClusterSettings) -> None:
    """Blocking. Raises TopicError naming every setting that is wrong, or ClusterError when Kafka can't be
    reached."""
    admin, names = TopicAdmin(settings), settings.names()
    log, beats = names.cluster_topic(), names.cluster_beats_topic()
    snapshots = names.cluster_snapshots_topic()
    for name, what in ((log, "The cluster topic"), (snapshots, "The cluster snapshots topic")):
        state, replication = find_or_make(admin, settings, name, what, 1, _NEEDS, _KEPT)
        refuse_if_wrong(state, what, replication, _wrong(state))
    state, replication = find_or_make(admin, settings, beats, "The cluster beats topic", 1, _NEEDS, _NEWEST)
    check_own_topic(state, "The cluster beats topic", 1, replication)


def ensure_packages_topic(settings: ClusterSettings) -> None:
    """The topic with the code of jobs, for whoever writes or runs some. Blocking; raises what `ensure_cluster_topics`
    raises."""
    admin, topic = TopicAdmin(settings), settings.names().cluster_packages_topic()
    what = "The cluster packages topic"
    state, replication = find_or_make(admin, settings, topic, what, 1, _NEEDS, _NEWEST)
    check_own_topic(state, what, 1, replication)


def _wrong(state: TopicState) -> Sequence[str]:
    """Each entry is needed by whoever reads later, and their order is the cluster."""
    wrong = []
    for name, wanted in _KEPT.items():
        if state.config.get(name, "") != wanted:
            wrong.append(
                f"{name} is {state.config.get(name, '')!r} and must be {wanted!r} (change it with kafka-configs)"
            )
    if state.partitions != 1:
        wrong.append(f"it has {state.partitions} partitions and must have 1 (use another prefix)")
    return wrong
