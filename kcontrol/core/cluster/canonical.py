"""The one form of a value, and its digest: the same in every process, whatever the order in which mappings
were filled."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from kcontrol.core.cluster.looked_up import looked_up
from kcontrol.core.cluster.model import LEFT_OUT, Replica

_NOTHING = object()


def canonical(value: object) -> object:
    """Plain lists, strings, integers and None, in an order that depends on nothing but the value.

    Raises TypeError for what has no place in a replica: a float, a set, anything that can be changed.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return [
            type(value).__name__,
            *(
                canonical(getattr(value, one.name))
                for one in fields(value)
                if one.compare and getattr(value, one.name) != one.metadata.get(LEFT_OUT, _NOTHING)
            ),
        ]
    if isinstance(value, Mapping):
        return [[canonical(key), canonical(value[key])] for key in sorted(value)]
    if isinstance(value, tuple):
        return [canonical(one) for one in value]
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, int):
        return value
    raise TypeError(f"a {type(value).__name__} has no place in a replica")


@looked_up()
def digest(replica: Replica) -> str:
    """SHA-256 of the canonical form, 32 hexadecimal digits of it."""
    return hashlib.sha256(repr(canonical(replica)).encode()).hexdigest()[:32]
