"""How kcontrol's own errors keep their kind on their way through Spark.

Of an exception in a planner, a task or a callback only Python's text of it reaches the driver. So what leaves
kcontrol's code there is a CarriedError, whose text begins with the kind; and in the text that Spark hands
over, only what follows the last mention of that class at the beginning of a line is one. Whatever else users'
own exceptions say is never looked at.
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


_CARRIED = re.compile(
    rf"^{re.escape(CarriedError.__module__)}\.{CarriedError.__qualname__}: \[(?P<kind>{'|'.join(FailureKind)})\] ", re.MULTILINE
)


@contextmanager
def carried() -> Iterator[None]:
    """Raises what goes wrong within as a CarriedError: kcontrol's own errors, and connections and disks that
    fail.

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
    """The error that Python's text of an exception, with a traceback or without, ends with if it is kcontrol's."""
    found = list(_CARRIED.finditer(text))
    if not found:
        return None
    return CarriedError(FailureKind(found[-1]["kind"]), text[found[-1].end() :].strip())
