"""Which offsets hold no record: markers of transactions, records that were aborted,
records that compaction removed.

A policy counts records, and Kafka's offsets count these as well. A node's watcher sees most of them in
passing and reports them beside how far the input reaches; what it has not looked at counts as records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kcontrol.core.model import Gap, InputRange, ReceivedPartition

Seen = Mapping[str, Mapping[int, ReceivedPartition]]
"""By input and partition, what the node that reads it has said."""


def records_between(gaps: Iterable[Gap], from_: int, to: int) -> int:
    """How many records offsets [from_, to) hold at most: exactly so many, if all of it was looked at and no
    gap that lies across an end was merged of several."""
    if to <= from_:
        return 0
    left = to - from_
    for gap in gaps:
        outside = max(0, from_ - gap.from_) + max(0, gap.to - to)
        left -= max(0, gap.offsets - outside)
    return max(0, left)


def records_in(ranges: Iterable[InputRange], seen: Seen) -> int:
    """The same, of the ranges of a step, whichever nodes read them."""
    return sum(records_between(gaps_of(seen, one), one.from_, one.to) for one in ranges if one.from_ < one.to)


def gaps_of(seen: Seen, one: InputRange) -> tuple[Gap, ...]:
    """What is known of the partition of a range."""
    found = seen.get(one.input, {}).get(one.partition)
    return () if found is None else found.gaps


def gaps_after(gaps: Sequence[Gap], offset: int) -> tuple[Gap, ...]:
    """Those that say anything of offsets from there on."""
    return tuple(gap for gap in gaps if gap.to > offset)


def with_gap(gaps: tuple[Gap, ...], gap: Gap, most: int) -> tuple[Gap, ...]:
    """With one more, which lies after the others. Of more than `most` the older half is merged in pairs: a
    step that begins in the middle of a pair then counts a record too many, at most as many as the pair has
    offsets without one."""
    last = gaps[-1] if gaps else None
    if last is not None and last.to == gap.from_ and _is_whole(last) and _is_whole(gap):
        return (*gaps[:-1], Gap(last.from_, gap.to, last.offsets + gap.offsets))
    gaps = (*gaps, gap)
    if len(gaps) <= most:
        return gaps
    half = len(gaps) // 2 // 2 * 2
    pairs = (gaps[at : at + 2] for at in range(0, half, 2))
    return (*(Gap(one.from_, two.to, one.offsets + two.offsets) for one, two in pairs), *gaps[half:])


def _is_whole(gap: Gap) -> bool:
    return gap.offsets == gap.to - gap.from_
