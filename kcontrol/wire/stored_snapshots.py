"""What the topic of snapshots holds, record by record: which snapshots can be read, and before which record nothing of it is
needed once the log is cut (decision 112).

Any agent may write here late: one that hung while it stored an old snapshot stores the rest of it when others have gone on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.model import Mark, Replica
from kcontrol.errors import TopicError
from kcontrol.wire.cluster_snapshot import replica_of

_CONFIRMED = "confirmed"


def part_key(mark: Mark, number: int, count: int) -> bytes:
    return f"{mark.offset}/{mark.digest}/{number}/{count}".encode()


def confirmed_key(mark: Mark) -> bytes:
    return f"{mark.offset}/{mark.digest}/{_CONFIRMED}".encode()


@dataclass(slots=True)
class _Stored:
    """What is there of one snapshot. first, last: its records. parts: by how many there are in all."""

    first: int
    last: int
    parts: dict[int, dict[int, bytes]] = field(default_factory=dict)
    is_whole: bool = False
    confirmed: bool = False
    value: Replica | None = None
    """None: it is not whole, not what its digest says, or of a version that nobody knows here."""

    def add(self, mark: Mark, number: int, count: int, data: bytes) -> None:
        """What was right once stays, whatever is written over it: who stores the same value again may have other bytes for
        it, and stop halfway."""
        if self.value is not None or number >= count:
            return
        parts = self.parts.setdefault(count, {})
        parts[number] = data
        if len(parts) == count:
            self.is_whole = True
            value = replica_of(b"".join(parts[one] for one in range(count)))
            right = value is not None and value.offset == mark.offset and digest(value) == mark.digest
            self.value = value if right else None


class StoredSnapshots:
    """The records of the topic that are still there."""

    def __init__(self) -> None:
        self._stored: dict[Mark, _Stored] = {}

    def add(self, offset: int, key: bytes, value: bytes | None) -> None:
        """The next record. What nobody knows is left out."""
        at, _, rest = key.decode(errors="replace").partition("/")
        sha, _, what = rest.partition("/")
        if not at.isdecimal() or not what:
            return
        mark = Mark(int(at), sha)
        stored = self._stored.setdefault(mark, _Stored(offset, offset))
        stored.last = offset
        number, _, count = what.partition("/")
        if what == _CONFIRMED:
            stored.confirmed = True
        elif number.isdecimal() and count.isdecimal() and value is not None:
            stored.add(mark, int(number), int(count), value)

    def holds(self, mark: Mark) -> bool:
        """Whether it is there, whole and as its digest says."""
        return mark in self._stored and self._stored[mark].value is not None

    def newest_confirmed(self) -> Replica | None:
        """That this version can read."""
        found = [one.value for one in self._stored.values() if one.confirmed and one.value is not None]
        return max(found, key=lambda one: one.offset, default=None)

    def needless_before(self, mark: Mark) -> int | None:
        """Before which record nothing is needed once `mark` counts as confirmed here, however late that is deleted. None: the
        log must not be cut before it, as it can't be read, or a newer one is confirmed, so others have cut, or will.

        Records of newer ones stay, confirmed or not: they may be before those of `mark`, and be what the log is cut before by
        the time that these are deleted. Those of a log that was deleted don't. Raises TopicError where one of that log would
        stay confirmed, as readers would take it for the newest of this one.
        """
        kept = self._stored.get(mark)
        if kept is None or kept.value is None:
            return None
        newer = [one for other, one in self._stored.items() if other.offset >= mark.offset and other != mark]
        strange = [
            one for one in newer if one.value is not None and one.value.founded_ms != kept.value.founded_ms
        ]
        before = min([kept.first, *(one.first for one in newer if one not in strange)])
        for one in newer:
            if one.confirmed and one.is_whole and one.last >= before:
                if one in strange:
                    raise TopicError(
                        "the topic of snapshots has one of another log, which was deleted, behind that at "
                        f"{mark.offset}: delete that topic where no agent runs"
                    )
                return None
        return before
