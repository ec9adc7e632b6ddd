"""Where the registry of schemas is and how it is spoken to: the table `[schema_registry]` of `kcontrol.toml`.

Client settings have the names that Confluent's clients give them (`basic.auth.user.info`, `ssl.ca.location`, ...). Values
never reach logs or `repr`, and never the tasks: only a driver asks the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator

KNOWN_SETTINGS = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
)
MAX_SCHEMA_BYTES = 524_288
"""Half of what a topic takes as one record by default: each schema becomes a record of the control topic."""


class RegistrySettings(BaseModel):
    """Address, client settings and limits of one registry of schemas.

    url: `http(s)://host[:port][/path]`, or several, separated by commas, of one registry: the first that answers counts.
    client: settings by the names of KNOWN_SETTINGS; secrets included, so never shown.
    request_timeout_ms: of one request, in milliseconds.
    deadline_ms: of all tries at one question; then the registry is away.
    max_schema_bytes: of a schema together with those that it needs.
    max_references: how many others a schema may need.
    max_unknown_ids: so many ids that the registry does not know a step may meet; an attempt with more fails.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    url: str = Field(min_length=1)
    client: Mapping[str, str] = Field(default_factory=dict, repr=False)
    request_timeout_ms: int = Field(default=5_000, ge=100, le=60_000)
    deadline_ms: int = Field(default=30_000, ge=100, le=60_000)
    max_schema_bytes: int = Field(default=262_144, ge=1_024, le=MAX_SCHEMA_BYTES)
    max_references: int = Field(default=64, ge=0, le=1_000)
    max_unknown_ids: int = Field(default=100, ge=1, le=10_000)

    @field_validator("url")
    @classmethod
    def _check_url(cls, value: str) -> str:
        for url in (each.strip() for each in value.split(",")):
            try:
                parts = urlsplit(url)
                wrong = parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0
            except ValueError:
                wrong, parts = True, urlsplit("")
            if "@" in parts.netloc:
                raise ValueError(
                    "url holds a name or a password: put them into the table client, as basic.auth.user.info"
                )
            if wrong or parts.query or parts.fragment:
                raise ValueError(f"url {url!r} is not http(s)://host[:port][/path]")
        return ",".join(each.strip().rstrip("/") for each in value.split(","))

    @field_validator("client")
    @classmethod
    def _check_client(cls, value: Mapping[str, str]) -> Mapping[str, str]:
        for name in value:
            if name not in KNOWN_SETTINGS:
                raise ValueError(f"client has no setting {name!r}; there are {', '.join(KNOWN_SETTINGS)}")
        if "basic.auth.user.info" in value and "bearer.auth.token" in value:
            raise ValueError("client: basic.auth.user.info and bearer.auth.token exclude each other")
        if ("ssl.key.location" in value) and "ssl.certificate.location" not in value:
            raise ValueError("client: ssl.key.location needs ssl.certificate.location")
        return value

    @property
    def urls(self) -> tuple[str, ...]:
        """All addresses, in the order in which they are tried."""
        return tuple(self.url.split(","))
