"""Whose transaction it is that an exchange's rows are written in, and what each of its records says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kcontrol.wire.chunks import CHUNK_FORMAT

STEP_HEADER, TO_HEADER, FORMAT_HEADER = "step", "to", "format"
FORMAT = str(CHUNK_FORMAT).encode()


@dataclass(frozen=True, slots=True)
class StepTransaction:
    """The transaction of one attempt at a step, as its coordinator has opened it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    step: int


def headers_of(step: int, node: int) -> Mapping[str, bytes]:
    """What the headers of a chunk must be: the step in which it was sent, the node that it is for, and its
    format."""
    return {STEP_HEADER: str(step).encode(), TO_HEADER: str(node).encode(), FORMAT_HEADER: FORMAT}
