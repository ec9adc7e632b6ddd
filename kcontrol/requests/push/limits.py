"""What a body of rows may be, and what its rows must be like."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.kinds import RowKind

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


@dataclass(frozen=True, slots=True)
class Rules:
    """What rows must be like. where: the input, for messages. kind: None: any object, or with `raw` any value of JSON. key: the
    field of which the key is made; '' for none."""

    where: str
    kind: RowKind | None
    raw: bool
    key: str
    limits: BodyLimits

    def too_many(self) -> ConfigurationError:
        """What is said of more rows than a request may have."""
        return ConfigurationError(
            f"{self.where}: there are more than {self.limits.rows} rows, which is the most of one request: send them in "
            "several, each with an id of its own"
        )

    def refused(self, why: str) -> ConfigurationError:
        """What is said of a body that is not taken."""
        return ConfigurationError(f"{self.where}: {why}; nothing was written")

    def too_large(self, what: str) -> ConfigurationError:
        """What is said of a body that takes too much once it is unpacked."""
        return self.refused(
            f"{what} more than {self.limits.unpacked_bytes} bytes, which is the most of one request: send the rows in several"
        )
