"""Whose transaction it is that an exchange's rows are written in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StepTransaction:
    """The transaction of one attempt at a step, as its coordinator has opened it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    step: int
