"""Columns and frames without the line of Python that made them.

With each function of its API PySpark tells the JVM from which line it was called, so that an error can name that: six to ten
questions around the one that is meant. For a user's query that is worth it; of what kcontrol makes for itself nobody wants to
know the line, and it is most of what is made while a pipeline is bound.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import utils as untyped_utils

_SWITCH = "_enable_debugging_cache"
"""PySpark's, in the module where it decides for each call whether to tell: True, False, or None as long as it does not know."""
_utils: Any = untyped_utils


class _CallSites:
    """How many ask for it not to be told, in all threads, and what PySpark had decided before the first of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking, self._before = 0, None

    def leave_out(self) -> None:
        with self._lock:
            if not self._asking:
                self._before = getattr(_utils, _SWITCH)
                setattr(_utils, _SWITCH, False)
            self._asking += 1

    def tell_again(self) -> None:
        with self._lock:
            self._asking -= 1
            if not self._asking:
                setattr(_utils, _SWITCH, self._before)


_call_sites = _CallSites()


@contextmanager
def without_call_sites() -> Iterator[None]:
    """What is made in the block is not told where it was made; in other threads neither, which only leaves a line out of an
    error of theirs. A PySpark that has no such switch tells it as ever."""
    if not hasattr(_utils, _SWITCH):
        yield
        return
    _call_sites.leave_out()
    try:
        yield
    finally:
        _call_sites.tell_again()
