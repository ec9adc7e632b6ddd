"""Records as the text of JSON, kept: the newest boundaries are asked for again and again, and never
change."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

from fastapi import Response

from kcontrol.core.model import StepBoundary
from kcontrol.wire.json import to_json_line

_KEPT = 1_000
"""Texts; one grows with the partitions of the inputs, by some hundred bytes for each."""


class BoundaryTexts:
    """What `to_json_line` gives for a boundary, made once while the boundary is among the
    last `kept` that were asked for."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        # By identity, which is safe as long as the boundary itself is held: to hash one
        # would cost as much as its text.
        self._texts: OrderedDict[int, tuple[StepBoundary, str]] = OrderedDict()

    def of(self, boundary: StepBoundary) -> str:
        """The text of one."""
        known = self._texts.get(id(boundary))
        if known is None:
            known = self._texts[id(boundary)] = boundary, to_json_line(boundary)
            if len(self._texts) > self._kept:
                self._texts.popitem(last=False)
        else:
            self._texts.move_to_end(id(boundary))
        return known[1]

    def list_of(self, boundaries: Iterable[StepBoundary]) -> str:
        """The text of a list of them."""
        return f"[{','.join(map(self.of, boundaries))}]"


def answer_with(answer: dict[str, Any], name: str, text: str) -> Response:
    """A response with the object `answer` (of at least one field) and one more field, whose value is JSON
    already."""
    others = json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    return Response(f'{others[:-1]},"{name}":{text}}}', media_type="application/json")
