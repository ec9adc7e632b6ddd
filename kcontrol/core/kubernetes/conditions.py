"""Conditions in a status: one sentence of what is wrong, and since when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kcontrol.core.kubernetes.resources import Manifest, meta_of

MOST_TEXT = 4_000
"""Characters of a message: the API server takes more, and nobody reads it."""


@dataclass(frozen=True, slots=True)
class Condition:
    """is_true None: not known."""

    type: str
    is_true: bool | None
    reason: str
    message: str = ""


def status_with(
    resource: Mapping[str, Any], status: Manifest, conditions: tuple[Condition, ...], now: str
) -> Manifest | None:
    """What a resource's status becomes; None: it says so already. A condition that stays what it is keeps its time.

    now: RFC 3339.
    """
    before = resource.get("status") or {}
    generation = meta_of(resource).generation
    earlier = {each["type"]: each for each in before.get("conditions", ())}
    said = []
    for each in conditions:
        truth = "Unknown" if each.is_true is None else str(each.is_true)
        old = earlier.get(each.type)
        is_same = old is not None and old["status"] == truth
        said.append(
            {
                "type": each.type,
                "status": truth,
                "reason": each.reason,
                "message": each.message[:MOST_TEXT],
                "lastTransitionTime": old["lastTransitionTime"] if old is not None and is_same else now,
                "observedGeneration": generation,
            }
        )
    after = {**before, **status, "observedGeneration": generation, "conditions": said}
    return None if after == before else after
