"""What a body of rows may be, what its rows must be like, and what is remembered of requests."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.kinds import RowKind

KEPT_MS = 7 * 86_400_000
"""The topic of pushes keeps requests for so long, at least."""
SLACK_MS = 3_600_000
"""Clocks of servers and brokers may be so far apart. So a request counts for so much longer than its answer has told: a server
whose clock is ahead would otherwise have forgotten it too soon, with a short memory at once."""
LONGEST_MS = KEPT_MS - SLACK_MS
"""A request can be remembered for so long, by whatever clock."""
REQUEST_BYTES = 1_000
"""That a remembered request takes in memory, about."""

UNPACKED_BYTES = 64 << 20
"""Of a body of Avro or Parquet, unless larger ones are taken as they are."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """rows, row_bytes: at most, of a request and of a row's key and value. unpacked_bytes: at most, of a body of Avro or
    Parquet: unpacked, with 8 bytes at least for each value that a column of Parquet says it has, and of all its rows as JSON.
    """

    rows: int = 100_000
    row_bytes: int = 900_000
    unpacked_bytes: int = UNPACKED_BYTES


class OversizedPushError(ConfigurationError):
    """There is more of something than a request may have."""


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """What a server remembers of requests. remember_ms: a request is known for so long. requests: so many are remembered at
    most, each about REQUEST_BYTES in memory."""

    remember_ms: int = 86_400_000
    requests: int = 500_000

    def __post_init__(self) -> None:
        if not 0 < self.remember_ms <= LONGEST_MS:
            raise ConfigurationError(
                f"requests can be remembered for {LONGEST_MS // 1000} s at most, not {self.remember_ms / 1000:g} s: their "
                f"topic keeps them for {KEPT_MS // 1000} s, and clocks may be {SLACK_MS // 1000} s apart"
            )


@dataclass(frozen=True, slots=True)
class Rules:
    """What rows must be like. where: the input, for messages. kind: None: any object, or with `raw` any value of JSON. key: the
    field of which the key is made; '' for none."""

    where: str
    kind: RowKind | None
    raw: bool
    key: str
    limits: BodyLimits

    def too_many(self) -> OversizedPushError:
        """What is said of more rows than a request may have."""
        return OversizedPushError(
            f"{self.where}: there are more than {self.limits.rows} rows, which is the most of one request: send them in "
            "several, each with an id of its own"
        )

    def refused(self, why: str) -> ConfigurationError:
        """What is said of a body that is not taken."""
        return ConfigurationError(f"{self.where}: {why}; nothing was written")

    def too_large(self, what: str) -> OversizedPushError:
        """What is said of a body that takes too much once it is unpacked."""
        return OversizedPushError(
            f"{self.where}: {what} more than {self.limits.unpacked_bytes} bytes, which is the most of one request: send the "
            "rows in several; nothing was written"
        )
