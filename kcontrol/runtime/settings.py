"""Where Kafka is and how to speak to it: the one value that every client in every process is made from.

Client settings have librdkafka's names (`security.protocol`, `sasl.mechanisms`, `ssl.ca.location`, ...), because they are the
best documented ones; adapters translate them for aiokafka, Faust and Java. Values never reach logs or `repr`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

_PREFIX = re.compile(r"[A-Za-z0-9._-]{1,60}\Z")


class ClusterSettings(BaseModel):
    """Address, client settings and topic prefix of one Kafka cluster.

    bootstrap_servers: `host:port[,host:port...]`.
    client: settings for every Kafka client, by librdkafka's names; secrets included, so never shown.
    prefix: the first part of all topic names, transactional ids and group ids that kcontrol makes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: str
    client: Mapping[str, str] = Field(default_factory=dict, repr=False)
    prefix: str = "kcontrol"

    @field_validator("prefix")
    @classmethod
    def _check_prefix(cls, value: str) -> str:
        if not _PREFIX.match(value):
            raise ValueError(f"prefix {value!r} must be 1 to 60 of the characters that Kafka allows in topic names")
        return value

    def to_wire(self) -> dict[str, Any]:
        """Plain data for another process of the same pipeline; holds secrets, so only ever sent over the side channel."""
        return {"bootstrap_servers": self.bootstrap_servers, "client": dict(self.client), "prefix": self.prefix}
