"""Where Kafka is and how to speak to it: the one value that every client in every process is made from.

Client settings have librdkafka's names (`security.protocol`, `sasl.mechanisms`, `ssl.ca.location`, ...),
because they are the best documented ones; adapters translate them for aiokafka, Faust and Java. Values never
reach logs or `repr`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, field_validator

from kcontrol.settings.registry import RegistrySettings
from kcontrol.wire.names import INTERNAL_PREFIX, Names

_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,60}\Z")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})\Z")
MAX_REPLICATION_FACTOR = 100

REFUSED_SETTINGS = {
    "bootstrap.servers": "set bootstrap_servers instead",
    "group.id": "kcontrol names its groups itself, from prefix",
    "transactional.id": "the step protocol decides it",
    "transaction.timeout.ms": "set Limits(transaction_timeout=...) of the pipeline",
    "enable.idempotence": "the step protocol decides it",
    "isolation.level": "the step protocol decides it",
    "acks": "the step protocol decides it",
    "enable.auto.commit": "the step protocol decides it",
    "auto.offset.reset": "set KafkaInput(starting_offsets=...)",
}
"""Client settings that correctness depends on, and what to do instead of giving them."""


class ClusterSettings(BaseModel):
    """Address, client settings and topic prefix of one Kafka cluster.

    bootstrap_servers: `host:port[,host:port...]`.
    client: settings for every Kafka client, by librdkafka's names; secrets included, so never shown.
    prefix: the first part of all topic names, transactional ids and group ids that kcontrol makes.
    name_overrides: other names for single ones of them (`kcontrol.wire.names.Names`).
    replication_factor: of the topics that kcontrol makes for itself; 0: 3, or as many as there
    are brokers if they are fewer, one that is away included.
    min_insync_replicas: of the same; 0: 2 where there are 3 replicas, else the broker's default.
    schema_registry: of the values whose format says so; None: there is none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    bootstrap_servers: str
    client: Mapping[str, str] = Field(default_factory=dict, repr=False)
    prefix: str = "kcontrol"
    name_overrides: Mapping[str, str] = Field(default_factory=dict)
    replication_factor: int = Field(default=0, ge=0, le=MAX_REPLICATION_FACTOR)
    min_insync_replicas: int = Field(default=0, ge=0, le=MAX_REPLICATION_FACTOR)
    schema_registry: RegistrySettings | None = None

    @field_validator("bootstrap_servers")
    @classmethod
    def _check_addresses(cls, value: str) -> str:
        addresses = [address.strip() for address in value.split(",")]
        for address in addresses:
            match = _ADDRESS.match(address)
            if match is None or not 0 < int(match[2]) < 65_536:
                raise ValueError(
                    f"bootstrap_servers {value!r}: {address!r} is not host:port; give "
                    "host:port[,host:port...]"
                )
        return ",".join(addresses)

    @field_validator("prefix")
    @classmethod
    def _check_prefix(cls, value: str) -> str:
        if not _PREFIX.match(value):
            raise ValueError(
                f"prefix {value!r} must be 1 to 60 of the characters that Kafka allows in topic names"
            )
        if value.startswith(INTERNAL_PREFIX):
            raise ValueError(
                f"prefix {value!r} begins with {INTERNAL_PREFIX!r}, as Kafka's internal topics do"
            )
        return value

    @field_validator("client")
    @classmethod
    def _check_client(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name in value:
            if name in REFUSED_SETTINGS:
                raise ValueError(f"client setting {name!r} can't be set: {REFUSED_SETTINGS[name]}")
        return value

    def names(self) -> Names:
        """The names of topics, transactional ids and groups in this cluster."""
        return Names(self.prefix, self.name_overrides)

    def to_json(self) -> str:
        """For another process of the same pipeline; holds secrets, so only ever sent over the side
        channel. Without the registry, which only drivers ask."""
        return json.dumps(self.model_dump(mode="json", exclude={"schema_registry"}), sort_keys=True)
