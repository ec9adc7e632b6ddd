"""Asks Kafka how safe the topics are that a pipeline rests on; in bounded time, and as far as this client may
know.

A server does not wait for that: it answers with what it knows, and a thread of its own asks again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kcontrol.adapters.kafka.admin.topics import TopicAdmin, TopicState
from kcontrol.core.model import PipelineSpec
from kcontrol.definition.durations import span_text
from kcontrol.errors import AccessError, ClusterError, KcontrolError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.topic_safety import TRANSACTIONS, KnownSafety, TopicSafety, TopicSettings, unsafe
from kcontrol.wire.addresses import is_topic

_log = logging.getLogger(__name__)

LOOK_TIMEOUT_S = 5.0
"""For each of the three questions: brokers, topics, settings."""
KEPT_S = 60.0
"""A server asks Kafka no more often about a pipeline."""
RETRY_S = 5.0
"""The same after Kafka could not be asked."""

_NOT_LOOKED_AT = "whether the topics are {}safe can't be looked at: {}"


def safety_now(
    settings: ClusterSettings, spec: PipelineSpec | None, timeout_s: float = LOOK_TIMEOUT_S
) -> KnownSafety:
    """What is not safe (`kcontrol.views.topic_safety`): of kcontrol's own topics, Kafka's topic of
    transactions, and a pipeline's topics. That something can't be looked at is a sentence, too.

    Blocking, for at most three times `timeout_s`; raises nothing of Kafka's.
    """
    try:
        return KnownSafety(tuple(_looked_at(settings, spec, timeout_s)), 0)
    except (ClusterError, AccessError) as error:
        return KnownSafety((_NOT_LOOKED_AT.format("", error),))


def _looked_at(settings: ClusterSettings, spec: PipelineSpec | None, timeout_s: float) -> list[str]:
    """Raises ClusterError or AccessError when Kafka could not be asked."""
    topics = {name: (what, compacted) for what, name, compacted in _topics(settings, spec)}
    admin = TopicAdmin(settings, timeout_s)
    brokers = admin.broker_count()
    found = admin.look(list(topics))
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
        for item in (each for each in spec.inputs if is_topic(each.topic)):
            yield f"the topic of input {item.name!r},", item.topic, False
        for output in spec.outputs:
            yield f"the topic of output {output.name!r},", output.topic, False
        for exchange in spec.exchanges:
            yield f"the topic of exchange {exchange.name!r},", exchange.topic, False
        yield "the steps topic", names.steps_topic(spec.pipeline), True
    yield "the control topic", names.control_topic(), True
    yield "Kafka's topic of transactions", TRANSACTIONS, True


def _judged(what: str, compacted: bool, state: TopicState) -> TopicSafety:
    config = state.config
    if not config:
        return TopicSafety(
            what, state.name, compacted, state.replication, None, "this client lacks DescribeConfigs on it"
        )
    settings = TopicSettings(
        int(config.get("min.insync.replicas", "1")),
        config.get("unclean.leader.election.enable") == "true",
        config.get("cleanup.policy", ""),
    )
    return TopicSafety(what, state.name, compacted, state.replication, settings)


@dataclass
class _Kept:
    """answered_s, asked_s: when Kafka answered last, and when it was first asked since. error:
    why it did not, the last time.
    due_s: when to ask again."""

    spec: PipelineSpec
    asked_s: float
    due_s: float
    found: tuple[str, ...] = ()
    answered_s: float | None = None
    error: str = ""
    is_asked: bool = False


class KeptSafety:
    """What was found out lately, for servers: they are asked often, and answer at once. For any number of
    threads."""

    def __init__(
        self,
        settings: ClusterSettings,
        kept_s: float = KEPT_S,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._kept_s = kept_s
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._all: dict[str, _Kept] = {}
        self._waiting: deque[_Kept] = deque()
        self._is_working = False

    def of(self, spec: PipelineSpec) -> KnownSafety:
        """What is known; never waits. What is old, or is not known yet, is asked for meanwhile."""
        now_s = self._monotonic_s()
        with self._lock:
            kept = self._all.setdefault(spec.fingerprint, _Kept(spec, now_s, now_s))
            if now_s >= kept.due_s and not kept.is_asked:
                self._ask(kept, now_s)
            return _known(kept, now_s)

    def _ask(self, kept: _Kept, now_s: float) -> None:
        if not kept.error:
            kept.asked_s = now_s
        kept.is_asked = True
        self._waiting.append(kept)
        if not self._is_working:
            self._is_working = True
            # A daemon: whoever ends the process does not wait for a broker that hangs.
            threading.Thread(target=self._work, name="kcontrol-topic-safety", daemon=True).start()

    def _work(self) -> None:
        while (kept := self._next()) is not None:
            try:
                self._look(kept)
            except Exception:  # noqa: BLE001 - a bug ends one look, and not those that others have asked for
                _log.exception("a look at how safe topics are has ended with an error")

    def _next(self) -> _Kept | None:
        with self._lock:
            self._is_working = bool(self._waiting)
            return self._waiting.popleft() if self._waiting else None

    def _look(self, kept: _Kept) -> None:
        found: tuple[str, ...] = ()
        error = "it ended with an error that the log of this process shows"
        try:
            found, error = tuple(_looked_at(self._settings, kept.spec, LOOK_TIMEOUT_S)), ""
        except KcontrolError as failure:
            error = str(failure)
        finally:
            with self._lock:
                now_s = self._monotonic_s()
                kept.error, kept.is_asked = error, False
                kept.due_s = now_s + (min(RETRY_S, self._kept_s) if error else self._kept_s)
                if not error:
                    kept.found, kept.answered_s = found, now_s


def _known(kept: _Kept, now_s: float) -> KnownSafety:
    if kept.answered_s is None:
        waited = f"Kafka was asked {span_text(round((now_s - kept.asked_s) * 1000))} ago and has not answered"
        why = (
            _NOT_LOOKED_AT.format("", kept.error)
            if kept.error
            else f"whether the topics are safe is not known yet: {waited}"
        )
        return KnownSafety((why,))
    still = (_NOT_LOOKED_AT.format("still ", kept.error),) if kept.error else ()
    return KnownSafety((*kept.found, *still), round((now_s - kept.answered_s) * 1000))
