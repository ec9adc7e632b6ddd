"""The names that kcontrol gives to things in Kafka: topics, transactional ids, groups;
and which names users may give.

All start with one prefix and each can be overridden, because in many clusters somebody else
creates topics and grants rights.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from kcontrol.errors import ConfigurationError
from kcontrol.wire.murmur2 import partition_of

MAX_PIPELINE_NAME = 63
MAX_TOPIC_NAME = 249
"""Kafka's own limit (`org.apache.kafka.common.internals.Topic`)."""
INTERNAL_PREFIX = "__"

_PIPELINE = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_PART = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_EXCHANGE = re.compile(r"[A-Za-z0-9_-]{1,63}")
_TOPIC = re.compile(r"[A-Za-z0-9._-]+")
_UNUSUAL = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_TARGET = 120
_RESERVED = frozenset({"schema"})
DEFAULT_NAMES = {
    "control_topic": "{prefix}.control",
    "steps_topic": "{prefix}.{pipeline}.steps",
    "exchange_topic": "{prefix}.{pipeline}.exchange.{exchange}",
    "transactional_id": "{prefix}.{pipeline}",
    "coordinator_group": "{prefix}.coordinator",
    "cluster_topic": "{prefix}.cluster",
    "cluster_beats_topic": "{prefix}.cluster.beats",
    "cluster_snapshots_topic": "{prefix}.cluster.snapshots",
    "cluster_packages_topic": "{prefix}.cluster.packages",
    "pushes_topic": "{prefix}.pushes",
    "regions_topic": "{prefix}.regions",
    "region_log_topic": "{prefix}.regions.log.{region}",
}
_PER_PIPELINE = frozenset({"steps_topic", "exchange_topic", "transactional_id"})
_PER_EXCHANGE = frozenset({"exchange_topic"})
_PER_REGION = frozenset({"region_log_topic"})


def check_pipeline_name(name: str) -> str:
    """Return `name` if a pipeline may be called so; raises ConfigurationError otherwise."""
    if len(name) > MAX_PIPELINE_NAME or not _PIPELINE.fullmatch(name):
        raise ConfigurationError(
            f"pipeline name {name!r} is not allowed: use 1 to {MAX_PIPELINE_NAME} lower-case letters, "
            "digits and inner hyphens, such as 'late-flights'"
        )
    if name in _RESERVED:
        raise ConfigurationError(
            f"pipeline name {name!r} is reserved for kcontrol's own keys: choose another"
        )
    return name


def check_region_name(name: str) -> str:
    """Return `name` if a region may be called so; raises ConfigurationError otherwise."""
    if len(name) > MAX_PIPELINE_NAME or not _PIPELINE.fullmatch(name):
        raise ConfigurationError(
            f"region name {name!r} is not allowed: use 1 to {MAX_PIPELINE_NAME} lower-case letters, digits and inner hyphens, "
            "such as 'end-of-day'"
        )
    return name


def check_part_name(what: str, name: str) -> str:
    """Return `name` if an input, output or query (`what`) may be called so; raises ConfigurationError
    otherwise."""
    if not _PART.fullmatch(name):
        raise ConfigurationError(
            f"{what} name {name!r} is not allowed: use 1 to 63 letters, digits and underscores, not a digit "
            "first, because inputs are handed to queries as parameters of that name"
        )
    return name


def check_exchange_name(name: str) -> str:
    """Return `name` if an exchange may be called so; raises ConfigurationError otherwise."""
    if not _EXCHANGE.fullmatch(name):
        raise ConfigurationError(
            f"exchange name {name!r} is not allowed: use 1 to 63 letters, digits, underscores and hyphens, because its "
            "topic is called after it"
        )
    return name


def check_topic_name(what: str, name: str) -> str:
    """Return `name` if Kafka allows a topic of ours or a user's to be called so; raises
    ConfigurationError naming `what` otherwise."""
    if len(name) > MAX_TOPIC_NAME or name in {".", ".."} or not _TOPIC.fullmatch(name):
        raise ConfigurationError(
            f"{what}: {name!r} is not a Kafka topic name: use 1 to {MAX_TOPIC_NAME} letters, digits, "
            "'.', '_' and '-'"
        )
    if name.startswith(INTERNAL_PREFIX):
        raise ConfigurationError(
            f"{what}: {name!r} begins with {INTERNAL_PREFIX!r}, as Kafka's internal topics do: choose "
            "another topic"
        )
    return name


def check_no_collisions(topics: Mapping[str, str]) -> None:
    """Refuse topic names that differ only in '.' and '_', of which Kafka lets only one
    exist. topics: by name, what it is.

    Raises ConfigurationError naming both.
    """
    seen: dict[str, str] = {}
    for name, what in topics.items():
        other = seen.setdefault(name.replace(".", "_"), name)
        if other != name:
            raise ConfigurationError(
                f"{what}: topic {name!r} differs from {other!r} ({topics[other]}) only in '.' and '_', and "
                "Kafka lets only one of them exist, because its metrics tell them apart by no more: rename "
                "one"
            )


@dataclass(frozen=True)
class Names:
    """Names in Kafka under one prefix.

    overrides: by the names of this class's methods. Those of one pipeline must hold `{pipeline}`, that of an exchange's
    topic `{exchange}` as well, that of a region's log `{region}`.
    """

    prefix: str = "kcontrol"
    overrides: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, template in self.overrides.items():
            if what not in DEFAULT_NAMES:
                known = ", ".join(sorted(DEFAULT_NAMES))
                raise ConfigurationError(f"there is no name {what!r} to override: choose from {known}")
            if ("{pipeline}" in template) != (what in _PER_PIPELINE):
                needed = "must hold {pipeline}" if what in _PER_PIPELINE else "must not hold {pipeline}"
                raise ConfigurationError(f"override of {what}: {template!r} {needed}")
            if ("{exchange}" in template) != (what in _PER_EXCHANGE):
                needed = "must hold {exchange}" if what in _PER_EXCHANGE else "must not hold {exchange}"
                raise ConfigurationError(f"override of {what}: {template!r} {needed}")
            if ("{region}" in template) != (what in _PER_REGION):
                needed = "must hold {region}" if what in _PER_REGION else "must not hold {region}"
                raise ConfigurationError(f"override of {what}: {template!r} {needed}")
            if what in _PER_REGION and not template.endswith("{region}"):
                raise ConfigurationError(
                    f"override of {what}: {template!r} must end with {{region}}, so that rights can be granted by what the "
                    "logs of all regions begin with"
                )
            if what in _PER_EXCHANGE and template.index("{exchange}") < template.index("{pipeline}"):
                raise ConfigurationError(
                    f"override of {what}: {template!r} must hold {{pipeline}} before {{exchange}}, so that rights can be "
                    "granted by what the topics of a pipeline begin with"
                )

    def _make(self, what: str, pipeline: str = "", exchange: str = "") -> str:
        template = self.overrides.get(what, DEFAULT_NAMES[what])
        filled = template.replace("{prefix}", self.prefix).replace("{pipeline}", pipeline)
        return filled.replace("{exchange}", exchange)

    def control_topic(self) -> str:
        """The compacted topic of all control records."""
        return check_topic_name("control topic", self._make("control_topic"))

    def steps_topic(self, pipeline: str) -> str:
        """The compacted topic, of one partition, with the boundaries of one pipeline."""
        return check_topic_name("steps topic", self._make("steps_topic", check_pipeline_name(pipeline)))

    def is_steps_topic(self, topic: str) -> bool:
        """Whether a topic is, or could become, the log of some pipeline's steps."""
        return self._pattern("steps_topic", _PIPELINE.pattern).fullmatch(topic) is not None

    def exchange_topic(self, pipeline: str, exchange: str) -> str:
        """The topic through which nodes of one pipeline send each other the rows of one exchange."""
        name = self._make("exchange_topic", check_pipeline_name(pipeline), check_exchange_name(exchange))
        return check_topic_name(f"topic of exchange {exchange!r}", name)

    def exchange_prefix(self, pipeline: str) -> str:
        """What the topics of all exchanges of a pipeline begin with."""
        template = self._make("exchange_topic", check_pipeline_name(pipeline), "{exchange}")
        return template.partition("{exchange}")[0]

    def is_exchange_topic(self, topic: str, pipeline: str | None = None) -> bool:
        """Whether a topic is, or could become, that of an exchange of some pipeline, or of the one that is given."""
        named = _PIPELINE.pattern if pipeline is None else re.escape(pipeline)
        return self._pattern("exchange_topic", named).fullmatch(topic) is not None

    def _pattern(self, what: str, pipeline: str) -> re.Pattern[str]:
        """What the topics of all pipelines, or of one, may be called. pipeline: a pattern."""
        text = re.escape(self._make(what, "{pipeline}", "{exchange}"))
        text = text.replace(re.escape("{pipeline}"), pipeline)
        return re.compile(text.replace(re.escape("{exchange}"), _EXCHANGE.pattern))

    def transactional_id(self, pipeline: str) -> str:
        """Under which the pipeline's coordinator opens the transaction of each step."""
        return self._make("transactional_id", check_pipeline_name(pipeline))

    def coordinator_group(self) -> str:
        """The consumer group (and Faust application) of the coordinators."""
        return self._make("coordinator_group")

    def cluster_topic(self) -> str:
        """The topic, of one partition, with the log of the cluster of agents."""
        return check_topic_name("cluster topic", self._make("cluster_topic"))

    def cluster_beats_topic(self) -> str:
        """The compacted topic, of one partition, with the newest beat of each agent."""
        return check_topic_name("cluster beats topic", self._make("cluster_beats_topic"))

    def cluster_snapshots_topic(self) -> str:
        """The topic, of one partition, with the newest snapshot of the cluster's value."""
        return check_topic_name("cluster snapshots topic", self._make("cluster_snapshots_topic"))

    def cluster_packages_topic(self) -> str:
        """The topic, of one partition, with the code of jobs that were submitted with it."""
        return check_topic_name("cluster packages topic", self._make("cluster_packages_topic"))

    def pushes_topic(self) -> str:
        """The topic that remembers requests by which rows were pushed into inputs."""
        return check_topic_name("pushes topic", self._make("pushes_topic"))

    def push_transactional_id(self, shard: int) -> str:
        """Under which the requests of a shard are written."""
        return f"{self.pushes_topic()}.{shard}"

    def regions_topic(self) -> str:
        """The compacted topic, of one partition, with what people want of regions."""
        return check_topic_name("regions topic", self._make("regions_topic"))

    def region_log_topic(self, region: str) -> str:
        """The compacted topic, of one partition, with what became of a region."""
        return check_topic_name("log of a region", self.region_logs_prefix() + check_region_name(region))

    def region_logs_prefix(self) -> str:
        """What the logs of all regions, and their transactional ids, begin with."""
        return self._make("region_log_topic").removesuffix("{region}")

    def region_transactional_id(self, region: str) -> str:
        """Under which a region's log is written."""
        return self.region_log_topic(region)

    def delivery_group(self, pipeline: str, delivery: str = "") -> str:
        """The consumer group under which a delivery tells how far it is; what all of a pipeline begin with."""
        return f"{self.prefix}.{check_pipeline_name(pipeline)}.deliver.{_UNUSUAL.sub('_', delivery)}"

    def standing_group(self, pipeline: str, output: str, target: str) -> str:
        """The consumer group that holds where a delivery stands, if its target can't. Targets of two names have two."""
        told_apart = hashlib.sha256(f"{output}\0{target}".encode()).hexdigest()[:8]
        name = _UNUSUAL.sub("_", f"{output}.{target}")[:_LONGEST_TARGET]
        return f"{self.prefix}.{check_pipeline_name(pipeline)}.standing.{name}.{told_apart}"


def control_partition(pipeline: str, partitions: int) -> int:
    """The partition of the control topic that a pipeline lives in: Kafka's default partitioner for its
    name."""
    return partition_of(pipeline.encode(), partitions)
