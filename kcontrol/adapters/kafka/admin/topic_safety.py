"""Asks Kafka how safe the topics are that a pipeline rests on; in bounded time, and as far as this client may know."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from kcontrol.adapters.kafka.admin.topics import TopicAdmin, TopicState
from kcontrol.core.model import PipelineSpec
from kcontrol.errors import AccessError, ClusterError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.topic_safety import TRANSACTIONS, TopicSafety, TopicSettings, unsafe

LOOK_TIMEOUT_S = 5.0
"""For each of the three questions: brokers, topics, settings."""
KEPT_S = 60.0
"""A server asks Kafka no more often about a pipeline."""


def unsafe_topics(settings: ClusterSettings, spec: PipelineSpec | None, timeout_s: float = LOOK_TIMEOUT_S) -> list[str]:
    """Sentences about what is not safe (`kcontrol.views.topic_safety`): of kcontrol's own topics, Kafka's topic of
    transactions, and a pipeline's topics. That something can't be looked at is a sentence, too.

    Blocking, for at most three times `timeout_s`; raises nothing of Kafka's.
    """
    topics = {name: (what, compacted) for what, name, compacted in _topics(settings, spec)}
    try:
        admin = TopicAdmin(settings, timeout_s)
        brokers = admin.broker_count()
        found = admin.look(list(topics))
    except (ClusterError, AccessError) as error:
        return [f"whether the topics are safe can't be looked at: {error}"]
    judged = []
    unknown = []
    for name, state in found.items():
        what, compacted = topics[name]
        if isinstance(state, str):
            unknown.append(f"{what} {name!r} can't be looked at ({state})")
        elif state is not None:
            judged.append(_judged(what, compacted, state))
    return [*unsafe(brokers, judged), *unknown]


def _topics(settings: ClusterSettings, spec: PipelineSpec | None) -> Iterator[tuple[str, str, bool]]:
    names = settings.names()
    if spec is not None:
        for item in spec.inputs:
            yield f"the topic of input {item.name!r},", item.topic, False
        for output in spec.outputs:
            yield f"the topic of output {output.name!r},", output.topic, False
        yield "the steps topic", names.steps_topic(spec.pipeline), True
    yield "the control topic", names.control_topic(), True
    yield "Kafka's topic of transactions", TRANSACTIONS, True


def _judged(what: str, compacted: bool, state: TopicState) -> TopicSafety:
    config = state.config
    if not config:
        return TopicSafety(what, state.name, compacted, state.replication, None, "this client lacks DescribeConfigs on it")
    settings = TopicSettings(
        int(config.get("min.insync.replicas", "1")),
        config.get("unclean.leader.election.enable") == "true",
        config.get("cleanup.policy", ""),
    )
    return TopicSafety(what, state.name, compacted, state.replication, settings)


class KeptSafety:
    """What was found out lately, for servers: they are asked often. Used from several threads."""

    def __init__(self, settings: ClusterSettings, kept_s: float = KEPT_S) -> None:
        self._settings = settings
        self._kept_s = kept_s
        self._lock = threading.Lock()
        self._found: dict[str, tuple[float, list[str]]] = {}

    def of(self, spec: PipelineSpec) -> list[str]:
        """As `unsafe_topics`, of at most so long ago. Blocking."""
        with self._lock:
            asked_s, found = self._found.get(spec.fingerprint, (0.0, []))
        if not asked_s or time.monotonic() - asked_s > self._kept_s:
            found = unsafe_topics(self._settings, spec)
            with self._lock:
                self._found[spec.fingerprint] = time.monotonic(), found
        return found
