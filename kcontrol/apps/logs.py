"""Logging of kcontrol's processes: to standard error, one line a record, without the chatter of the
libraries.

aiokafka logs each failed connection attempt, ten a second, while a broker restarts. Saying the same thing
once in a while is enough; what kcontrol makes of it, it logs itself.
"""

from __future__ import annotations

import logging
import os
import sys
import time

DEBUG_VARIABLE = "KCONTROL_DEBUG"
REPEAT_AFTER_S = 30.0

_CHATTY = ("aiokafka", "faust", "mode", "asyncio", "py4j")
_TOLD_ELSEWHERE = "py4j"
"""Only says that something was raised in Python: the error of the step that Java called it for has all of it."""
_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class OncePerWhile(logging.Filter):
    """Lets each message of a chatty library pass once in `repeat_after_s`, whatever its arguments."""

    def __init__(self, repeat_after_s: float = REPEAT_AFTER_S) -> None:
        super().__init__()
        self._repeat_after_s = repeat_after_s
        self._said: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not record.name.startswith(_CHATTY) or record.levelno >= logging.CRITICAL:
            return True
        if record.levelno < logging.ERROR or record.name.startswith(_TOLD_ELSEWHERE):
            return False
        what = (record.name, str(record.msg))
        last = self._said.get(what)
        if last is not None and record.created - last < self._repeat_after_s:
            return False
        self._said[what] = record.created
        record.exc_info = None
        return True


def set_up_logging(debug: bool, level: int = logging.INFO) -> None:
    """Configure the root logger of this process. With `debug` everything is said, the libraries' part too."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(_FORMAT)
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    if debug:
        os.environ[DEBUG_VARIABLE] = "1"
    else:
        handler.addFilter(OncePerWhile())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("kcontrol").setLevel(logging.DEBUG if debug else level)
    if debug:
        root.setLevel(logging.INFO)
