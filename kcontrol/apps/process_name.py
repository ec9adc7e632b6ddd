"""A random name of this process, by which it knows what it has written itself, in this life or an earlier one.

A process id does not tell: in two containers of one host name both processes may be number 1.
"""

from __future__ import annotations

import os
from uuid import uuid4

_NAME = "KCONTROL_PROCESS"
"""The environment variable that keeps it where the process begins anew, with the process id, so that nothing which the
process starts takes it for its own."""
_RANDOM_DIGITS = 12


def process_name() -> str:
    """Of this process, also after `begin_anew`."""
    process_id, _, name = os.environ.get(_NAME, "").partition(":")
    if not name or process_id != str(os.getpid()):
        name = uuid4().hex
        os.environ[_NAME] = f"{os.getpid()}:{name}"
    return name


def new_join_id() -> str:
    """Names an incarnation of a node, as nobody else is named; tells which process it is of (`is_of`)."""
    return f"{process_name()}-{uuid4().hex[:_RANDOM_DIGITS]}"


def is_of(join_id: str, name: str) -> bool:
    """Whether the process of this name has made it."""
    return join_id.startswith(f"{name}-")
