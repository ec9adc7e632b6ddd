"""Entries and beats of the cluster of agents as bytes: Avro in single-object encoding, as all records
(decision 111).

No schema is put into these topics. What may be written at a level of the value was there when the level was
made, so whoever knows the level knows the schema; and what nobody can read is no entry, to all alike. So no
bytes in the log can stop an agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from kcontrol.core.cluster.entries import ClusterEntry, PeerGc, Prepare
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.troubles import AgentTroubles
from kcontrol.errors import DamagedRecordError
from kcontrol.wire.codec import HEADER_BYTES, MAGIC, record_bytes, record_of
from kcontrol.wire.schemas import Schema, current_schemas, released_schemas

MAX_ENTRY_BYTES = 256 << 10
KINDS: Mapping[str, type] = {cls.__name__: cls for cls in get_args(ClusterEntry)}
CLUSTER_CLASSES: Mapping[str, type] = {**KINDS, Beat.__name__: Beat, AgentTroubles.__name__: AgentTroubles}


@dataclass(frozen=True, slots=True)
class StampedEntry:
    """An entry of the log, at its offset; None if nobody can read it. at_ms: Kafka's timestamp of it, for
    people."""

    offset: int
    entry: ClusterEntry | None
    at_ms: int = 0


def entry_bytes(entry: ClusterEntry) -> bytes:
    """Raises ValueError for one of more than MAX_ENTRY_BYTES."""
    data = _bytes_of(entry)
    if len(data) > MAX_ENTRY_BYTES:
        raise ValueError(f"an entry of {len(data)} bytes is larger than {MAX_ENTRY_BYTES}")
    return data


def entry_of(offset: int, data: bytes | None, at_ms: int) -> StampedEntry:
    """What a record of the cluster topic holds."""
    found = cluster_record(data)
    if type(found).__name__ not in KINDS:
        return StampedEntry(offset, None, at_ms)
    # Avro has no pairs: a list of another length would be one that `apply` does not expect.
    if isinstance(found, Prepare | PeerGc) and len(found.levels) != 2:
        return StampedEntry(offset, None, at_ms)
    return StampedEntry(offset, found, at_ms)


def beat_bytes(beat: Beat) -> bytes:
    return _bytes_of(beat)


def beat_of(data: bytes | None) -> Beat | None:
    """None for what is no beat."""
    found = cluster_record(data)
    return found if isinstance(found, Beat) else None


def troubles_bytes(said: AgentTroubles) -> bytes:
    return _bytes_of(said)


def troubles_of(data: bytes | None) -> AgentTroubles | None:
    """None for what is something else."""
    found = cluster_record(data)
    return found if isinstance(found, AgentTroubles) else None


def _bytes_of(record: ClusterEntry | Beat | AgentTroubles) -> bytes:
    return record_bytes(record, current_schemas()[type(record).__name__])


def cluster_record(data: bytes | None) -> Any:
    """An entry, a beat or what is said beside beats, of whatever version; None if it is none of them."""
    written = _schemas().get((data or b"")[len(MAGIC) : HEADER_BYTES])
    if data is None or written is None or not data.startswith(MAGIC):
        return None
    try:
        return record_of(
            data, written, current_schemas()[written.name], CLUSTER_CLASSES[written.name], "a record"
        )
    except DamagedRecordError:
        return None


@cache
def _schemas() -> Mapping[bytes, Schema]:
    """By fingerprint: every version of what a cluster writes."""
    versions = released_schemas()
    return {schema.fingerprint: schema for name in CLUSTER_CLASSES for schema in versions[name]}
