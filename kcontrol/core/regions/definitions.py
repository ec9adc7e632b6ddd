"""Which definition of a region stands, where several people write one, and what of two regions can't stand together.

The newest record counts for whoever reads the topic of regions. A definition names the one that it follows; so whoever has
written one can tell whether another, of which it knew nothing, was there before, and gives way to that.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionDefinition


def standing(
    before: RegionDefinition | None, later: Iterable[RegionDefinition | None]
) -> RegionDefinition | None:
    """The definition that stands after records of one region, in their order; None: none does. later: None for a deletion.
    Of two that follow the same one the first stands, whatever comes behind it unseen. One that stood, and is written again by
    somebody who has not seen that it was deleted, does not stand again."""
    stood = set() if before is None else {before.request_id}
    for each in later:
        if each is None:
            before = None
        elif _counts(before, each) and each.request_id not in stood:
            before = each
            stood.add(each.request_id)
    return before


def _counts(before: RegionDefinition | None, each: RegionDefinition) -> bool:
    """An older version says nothing of what it follows: what it defines anew counts, and what it takes for the first does not
    where there is one."""
    if before is None:
        return not each.follows
    if not each.follows:
        return each.incarnation != each.request_id
    return each.follows == before.request_id


def shared_pipelines(settings: RegionSettings, others: Iterable[RegionSettings]) -> tuple[str, ...]:
    """What is wrong with regions that share pipelines with this one, a sentence each: a pipeline would be held by both."""
    found = []
    for other in others:
        shared = sorted(set(other.pipelines) & set(settings.pipelines))
        if other.region != settings.region and shared:
            found.append(
                f"pipeline {shared[0]!r} is of region {other.region!r}, and would be held by both. A pipeline is in one region "
                "at most"
            )
    return tuple(found)
