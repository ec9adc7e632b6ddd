"""When two states are one: if they differ in nothing but offsets, and those are in the same order.

The functions of the core compare offsets and copy them, and that is all, but for one place: which of several free members a
joiner is given goes by the offset. There the search takes every offset that makes a difference (`moves.py`), so what
follows from a state follows from each that has its key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from kcontrol.core.cluster.model import Replica
from tests.simulation.cluster.exhaustive.state import AgentState, HostState, Logged, State

OFFSETS = frozenset(
    (
        "offset",
        "since",
        "touched",
        "id",
        "revision",
        "generation",
        "stood",
        "as_of",
        "forgotten",
        "configured",
    )
)
"""Fields, of whatever class, that hold an offset of the cluster's log."""
BEFORE_ALL = -1
REMEMBERED = (Replica, HostState, AgentState, Logged)
MOST_REMEMBERED = 100_000

Shape = tuple[str, tuple[int, ...]]
"""A value with its offsets taken out, and these, in the order in which they come."""


class Keys:
    """Keys of states. Shapes of parts are remembered, as most states share theirs with others."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[object, Shape]] = {}
        """By identity, with the part itself, so that no other gets its identity."""

    def key(self, state: State) -> bytes:
        words: list[str] = []
        offsets: list[int] = []
        self._write(state, words, offsets)
        ranks = {one: rank for rank, one in enumerate(sorted({BEFORE_ALL, *offsets}))}
        text = f"{'|'.join(words)}{[ranks[one] for one in offsets]}"
        return hashlib.blake2b(text.encode(), digest_size=16).digest()

    def shape(self, part: object) -> Shape:
        found = self._shapes.get(id(part))
        if found is None:
            words: list[str] = []
            offsets: list[int] = []
            self._write_parts(part, words, offsets)
            if len(self._shapes) > MOST_REMEMBERED:
                self._shapes.clear()
            found = part, ("|".join(words), tuple(offsets))
            self._shapes[id(part)] = found
        return found[1]

    def _write(self, value: object, words: list[str], offsets: list[int]) -> None:
        if isinstance(value, REMEMBERED):
            word, more = self.shape(value)
            words.append(word)
            offsets += more
        elif is_dataclass(value):
            self._write_parts(value, words, offsets)
        elif isinstance(value, Mapping):
            words.append(f"{len(value)}:")
            for name in sorted(value):
                words.append(repr(name))
                self._write(value[name], words, offsets)
        elif isinstance(value, tuple):
            words.append(f"{len(value)}")
            for one in value:
                self._write(one, words, offsets)
        else:
            words.append(repr(value))

    def _write_parts(self, value: object, words: list[str], offsets: list[int]) -> None:
        words.append(type(value).__name__)
        for name, is_offset in _parts(type(value)):
            part = getattr(value, name)
            if is_offset:
                offsets.append(part)
            else:
                self._write(part, words, offsets)


@cache
def _parts(kind: type[Any]) -> tuple[tuple[str, bool], ...]:
    return tuple((one.name, one.name in OFFSETS) for one in fields(kind) if one.compare)
