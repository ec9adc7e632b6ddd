"""What follows from a replica, and is asked for again and again: computed once for each value.

Nothing in a replica is ever changed in place, so what follows from it does not change either; and of one that differs from
another in some parts only, all that follows from the others is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any, Protocol, TypeVar, TypeVarTuple


class HoldsLookups(Protocol):
    """A value that holds what was looked up in it."""

    @property
    def known(self) -> dict[object, Any]: ...


R = TypeVar("R", bound=HoldsLookups)
T = TypeVar("T")
More = TypeVarTuple("More")
WHOLE = 1
_BIT_OF: dict[str, int] = {}
"""By part from which something follows."""


def looked_up(
    *parts: str,
) -> Callable[[Callable[[R, *More], T]], Callable[[R, *More], T]]:
    """Of a function of a replica: it is computed once for each value and further arguments, which must be hashable. Its result
    is shared, and nobody may change it.

    parts: of the replica, all that it follows from; none: from the whole.
    """
    follows = _bits(parts) if parts else WHOLE

    def remembering(compute: Callable[[R, *More], T]) -> Callable[[R, *More], T]:
        @wraps(compute)
        def found(replica: R, *more: *More) -> T:
            key = (compute, *more) if more else compute
            known = replica.known.get(key)
            if known is None:
                known = follows, compute(replica, *more)
                replica.known[key] = known
            result: T = known[1]
            return result

        return found

    return remembering


def carried_over(known: Mapping[object, Any], parts: Collection[str]) -> dict[object, Any]:
    """What was looked up and does not follow from any of these parts."""
    changed = WHOLE
    for name in parts:
        changed |= _BIT_OF.get(name, 0)
    return {key: one for key, one in known.items() if not one[0] & changed}


def _bits(parts: Collection[str]) -> int:
    """A set of parts as an integer, which is quicker to compare."""
    bits = 0
    for name in parts:
        bits |= _BIT_OF.setdefault(name, WHOLE << (len(_BIT_OF) + 1))
    return bits
