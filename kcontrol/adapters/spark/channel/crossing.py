"""How kcontrol's own errors keep their kind on their way through Spark.

Of an exception in a planner, a task or a callback only Python's text of it reaches the driver. So what leaves
kcontrol's code there is a CarriedError, whose text begins with the kind. Only the exception that a text ends
with, below the last traceback, is read as one: what users' own exceptions say is never looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from kcontrol.core.failures import kind_of
from kcontrol.core.model import FailureKind
from kcontrol.errors import KcontrolError


class CarriedError(Exception):
    """One of kcontrol's errors, as Spark is given it."""

    def __init__(self, kind: FailureKind, message: str) -> None:
        super().__init__(f"[{kind.value}] {message}")
        self.kind, self.message = kind, message


_TRACEBACK = "Traceback (most recent call last):"
_EXCEPTION = re.compile(r"^[A-Za-z_].*", re.MULTILINE | re.DOTALL)
"""What stands below the calls of a traceback, which are indented."""
_NAME = re.escape(f"{CarriedError.__module__}.{CarriedError.__qualname__}")
_CARRIED = re.compile(rf"{_NAME}: \[(?P<kind>{'|'.join(FailureKind)})\] (?P<message>.*)", re.DOTALL)


@contextmanager
def carried() -> Iterator[None]:
    """Raises kcontrol's own errors, and those of connections and disks, as a CarriedError.

    Nothing of a user's runs within. What else goes wrong there is a fault of kcontrol's code, and leaves with
    its traceback.
    """
    try:
        yield
    except KcontrolError as error:
        raise CarriedError(kind_of(error), str(error)) from None
    except (OSError, EOFError) as error:
        raise CarriedError(kind_of(error), f"{type(error).__name__}: {error}") from error


def carried_in(text: str) -> CarriedError | None:
    """The error that Python's text of an exception, with a traceback or without, ends with if it is
    kcontrol's."""
    last = _EXCEPTION.search(text.rpartition(_TRACEBACK)[2])
    found = None if last is None else _CARRIED.fullmatch(last[0])
    return None if found is None else CarriedError(FailureKind(found["kind"]), found["message"].strip())
