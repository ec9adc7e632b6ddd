"""What the tables of both state machines are made of.

A row is a sentence: *in* this state, *on* this event, for this *cause*, the machine goes *to* that state. As
in h11 there are two kinds of rows. Some are brought about by an event. Others follow from what is known, and
no event is theirs: after each event, whichever it was, what is known is looked at. These have `Look` in place
of the event.

The event is part of the row so that what triggers an arrow of the diagram can be looked up. It is checked
whenever a row is followed, so that no row says less than what happens.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

S = TypeVar("S", bound=StrEnum)
C = TypeVar("C", bound=StrEnum)


class Look:
    """No event: what is known is looked at after each of them."""


Row = tuple[S | tuple[S, ...], type | tuple[type, ...], C, S]
"""In, on, cause, to. What several states or events have in common is one row; what one pair has of its own,
another."""


def next_states(rows: Iterable[Row[S, C]]) -> dict[tuple[S, C], S]:
    """What follows: by (state, cause)."""
    return {(before, cause): after for befores, _, cause, after in rows for before in _each(befores)}


def occasions(rows: Iterable[Row[S, C]]) -> dict[tuple[S, C], tuple[type, ...]]:
    """On which events a cause may be given: by (state, cause)."""
    found: dict[tuple[S, C], tuple[type, ...]] = {}
    for befores, on, cause, _ in rows:
        for before in _each(befores):
            found[before, cause] = (
                *found.get((before, cause), ()),
                *(on if isinstance(on, tuple) else (on,)),
            )
    return found


def _each(states: S | tuple[S, ...]) -> tuple[S, ...]:
    return states if isinstance(states, tuple) else (states,)
