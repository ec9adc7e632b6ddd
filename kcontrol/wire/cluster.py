"""Entries and beats of the cluster of agents as bytes: JSON in an envelope (decision 099).

The envelope says the kind and the level at which its author knew the value; what is not known, or not exactly
of the types that the entry has, is None to everybody, so that no bytes in the log can stop an agent.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from kcontrol.core.cluster.entries import ClusterEntry
from kcontrol.core.cluster.liveness import Beat

MAX_ENTRY_BYTES = 256 << 10
KINDS: Mapping[str, type] = {cls.__name__: cls for cls in get_args(ClusterEntry)}


@dataclass(frozen=True, slots=True)
class StampedEntry:
    """An entry of the log, at its offset; None if nobody can read it. at_ms: of its author's wall clock, for
    people."""

    offset: int
    entry: ClusterEntry | None
    at_ms: int = 0


def entry_bytes(entry: ClusterEntry, level: int, at_ms: int) -> bytes:
    """Raises ValueError for one of more than MAX_ENTRY_BYTES."""
    kind: type = type(entry)
    body = _adapter(kind).dump_python(entry, mode="json")
    data = json.dumps({"kind": kind.__name__, "level": level, "at_ms": at_ms, "entry": body}).encode()
    if len(data) > MAX_ENTRY_BYTES:
        raise ValueError(f"an entry of {len(data)} bytes is larger than {MAX_ENTRY_BYTES}")
    return data


def entry_of(offset: int, data: bytes | None) -> StampedEntry:
    """What a record of the cluster topic holds."""
    try:
        envelope = json.loads(data or b"")
        adapter = _adapter(KINDS[envelope["kind"]])
        entry = adapter.validate_json(json.dumps(envelope["entry"]), strict=True)
        return StampedEntry(offset, entry, int(envelope["at_ms"]))
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError):
        return StampedEntry(offset, None)


def beat_bytes(beat: Beat) -> bytes:
    return _adapter(Beat).dump_json(beat)


def beat_of(data: bytes | None) -> Beat | None:
    """None for what is no beat."""
    try:
        beat: Beat = _adapter(Beat).validate_json(data or b"", strict=True)
        return beat
    except ValidationError:
        return None


@cache
def _adapter(cls: type) -> TypeAdapter[Any]:
    return TypeAdapter(cls)
