"""Hypothesis strategies for every record of kcontrol/core/model.py, built from the type hints,
so that none can be forgotten.

`instances(Command)` gives whole commands. Names and digests look as they do in a pipeline (and collide often,
which finds more than wild text does); numbers span the whole range of an Avro long; free texts hold any
Unicode.
"""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from kcontrol.core.model import Checkpoint, ControlRecord, StepBoundary, StepRecord
from kcontrol.wire.shapes import optional_of

T = TypeVar("T")

LONGS = st.one_of(st.integers(0, 9), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PIPELINE_NAMES = st.one_of(
    st.sampled_from(["flights", "orders", "a"]), st.from_regex(r"\A[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?\Z")
)
PART_NAMES = st.sampled_from(["flights", "planes", "delays", "totals"])
DIGESTS = st.integers(0, 2**128 - 1).map(lambda number: f"{number:032x}")

_BY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "pipeline": PIPELINE_NAMES.filter(lambda name: name != "schema"),
    "input": PART_NAMES,
    "output": PART_NAMES,
    "topic": PART_NAMES,
    "digest": DIGESTS,
    "uuid": st.uuids().map(str),
    "node": st.integers(0, 3),
    "incarnation": st.integers(0, 2**63 - 1),
    "claim_epoch": st.integers(0, 2**63 - 1),
    "step": st.integers(0, 2**63 - 1),
}


@cache
def instances(cls: type[T]) -> st.SearchStrategy[T]:
    """Instances of one dataclass of the model, parts included."""
    hints = get_type_hints(cls)
    parts = {}
    for field in fields(cls):  # type: ignore[arg-type]
        hint = hints[field.name]
        parts[field.name] = (
            _BY_FIELD.get(field.name, _of_hint(hint)) if hint in (int, str) else _of_hint(hint)
        )
    return st.builds(cls, **parts)


def _of_hint(hint: Any) -> st.SearchStrategy[Any]:
    if get_origin(hint) is tuple:
        return st.lists(_of_hint(get_args(hint)[0]), max_size=3).map(tuple)
    if (inner := optional_of(hint)) is not None:
        return st.none() | _of_hint(inner)
    if hint in (int, str, bool):
        return {int: LONGS, str: TEXTS, bool: st.booleans()}[hint]
    return st.sampled_from(hint) if issubclass(hint, StrEnum) else instances(hint)


CONTROL_RECORDS: st.SearchStrategy[ControlRecord] = st.one_of(
    *(instances(cls) for cls in get_args(ControlRecord))
)
BOUNDARIES: st.SearchStrategy[StepBoundary] = instances(StepBoundary)
RECORDS: st.SearchStrategy[ControlRecord | StepRecord] = CONTROL_RECORDS | BOUNDARIES | instances(Checkpoint)
