"""Holds a replay's input to the log while it is read: as soon as a partition is read to its
end, not when queries are done.

A step that is run again on other input gives what nobody has computed. So the attempt ends with the first
partition that differs, before anything that came of it counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from kcontrol.core.model import InputSlice, SourceSplit, StepBoundary
from kcontrol.core.step.differences import Difference, NodePart, input_differences
from kcontrol.errors import ConfigurationError
from kcontrol.wire.digest import INPUT_DIGEST_VERSION, add_digests, input_kind


def splits_by_partition(splits: Iterable[SourceSplit]) -> Mapping[tuple[str, int], list[SourceSplit]]:
    """The splits that hold offsets, by (input, partition)."""
    found: dict[tuple[str, int], list[SourceSplit]] = {}
    for split in splits:
        if split.from_ < split.to:
            found.setdefault((split.input, split.partition), []).append(split)
    return found


def recorded_version(expected: StepBoundary | None, own: Collection[tuple[str, int]] | None) -> int:
    """The version that the digests of a step's input must have: that in the log for a replay, else the
    newest.

    own: (input, partition) of what is read; None: everything. Raises ConfigurationError
    for one that is not known here.
    """
    pieces = [piece for piece in expected.inputs if piece.records] if expected is not None else []
    found = {piece.digest_version for piece in pieces if own is None or (piece.input, piece.partition) in own}
    for version in found:
        input_kind(version)
    if len(found) > 1:
        raise ConfigurationError(
            "the digests of what one node has read in this step are of versions "
            f"{', '.join(map(str, sorted(found)))}: no version of kcontrol has written that"
        )
    return found.pop() if found else INPUT_DIGEST_VERSION


class InputCheck:
    """What a replay has read so far, against what the log says of it. Not safe for threads."""

    def __init__(self, expected: StepBoundary, part: NodePart, splits: Sequence[SourceSplit]) -> None:
        self._expected = expected
        self._slices = {(piece.input, piece.partition): piece for piece in expected.inputs}
        self._whole = part.whole
        self._unread = {
            key: {(split.from_, split.to) for split in own}
            for key, own in splits_by_partition(splits).items()
            if key in part.inputs
        }
        self._counted: dict[tuple[str, int], list[tuple[int, str]]] = {}

    def read(
        self, input_name: str, partition: int, offsets: tuple[int, int], records: int, digest: str
    ) -> list[Difference]:
        """A split was read to its end, for the first time. The difference of its partition,
        if that is now read and differs."""
        key = (input_name, partition)
        unread = self._unread.get(key, set())
        unread.discard(offsets)
        counted = self._counted.setdefault(key, [])
        counted.append((records, digest))
        if unread or key not in self._slices:
            return []
        found = self._found(self._slices[key], counted)
        return input_differences(self._expected, NodePart(frozenset({key}), {}, self._whole), [found])

    def _found(self, expected: InputSlice, counted: Sequence[tuple[int, str]]) -> InputSlice:
        return replace(
            expected,
            records=sum(records for records, _ in counted),
            digest=add_digests(digest for _, digest in counted),
        )
