"""What is kept of rows that were pushed into an input, so that the same request never counts twice: a record in the
topic of pushes, in the transaction of the rows themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.codec import HEADER_BYTES, MAGIC, record_bytes, record_of
from kcontrol.wire.schemas import Schema, current_schemas, released_schemas

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class PushedEnd:
    """The last row of a request in one partition."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class PushedRequest:
    """`PIPELINE/INPUT/REQUEST`: rows that were pushed."""

    pipeline: str
    input: str
    request_id: str
    topic: str
    topic_id: str
    content: str
    """SHA-256 of keys and values, in hexadecimal: the same id with other rows is a mistake."""
    records: int
    at_ms: int
    """By the clock of who wrote it."""
    ends: tuple[PushedEnd, ...]
    remember_ms: int = DAY_MS
    longest_ms: int = DAY_MS
    """Of those that counted when it was written, itself among them: so far back whoever reads has to look."""

    @property
    def until_ms(self) -> int:
        """It counts before, whoever is asked."""
        return self.at_ms + self.remember_ms

    @property
    def key(self) -> str:
        """Of the record."""
        return request_key(self.pipeline, self.input, self.request_id)

    @property
    def token(self) -> str:
        """The completion token of all of its rows."""
        return ",".join(f"{self.topic}@{self.topic_id}:{end.partition}:{end.offset}" for end in self.ends)


def request_key(pipeline: str, input_name: str, request_id: str) -> str:
    """Neither name can hold a slash."""
    return f"{pipeline}/{input_name}/{request_id}"


def pushed_bytes(request: PushedRequest) -> bytes:
    return record_bytes(request, current_schemas()[PushedRequest.__name__])


def pushed_of(data: bytes, where: str) -> PushedRequest:
    """Of whatever version. where: topic, partition and offset. Raises DamagedRecordError: these bytes are no such record."""
    written = _schemas().get(data[len(MAGIC) : HEADER_BYTES]) if data.startswith(MAGIC) else None
    if written is None:
        raise DamagedRecordError(
            f"{where} is no record of pushed rows that this version of kcontrol can read: something else has written it, or a "
            "newer version"
        )
    found: PushedRequest = record_of(
        data, written, current_schemas()[PushedRequest.__name__], PushedRequest, where
    )
    return found


@cache
def _schemas() -> dict[bytes, Schema]:
    return {schema.fingerprint: schema for schema in released_schemas()[PushedRequest.__name__]}
