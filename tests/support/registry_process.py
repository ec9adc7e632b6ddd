"""A registry of schemas that is a process of its own.

    python -m tests.support.registry_process PORT FILE NTH

FILE holds the schemas that it knows when it starts, a line each: `[subject, schema]`, or `[subject, schema, type]`; they have
the ids 1, 2, ... It kills itself with SIGKILL in place of its NTH answer; 0: never.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from tests.support.registry import Registry, serving


def _dies_at(registry: Registry, nth: int) -> None:
    answer = registry.answer

    def deadly(method: str, path: str, body: Any) -> tuple[int, Any]:
        if len(registry.asked) == nth:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(method, path, body)

    registry.answer = deadly  # type: ignore[method-assign]


if __name__ == "__main__":
    _port, _file, _nth = sys.argv[1:]
    _registry = Registry()
    for _line in Path(_file).read_text().splitlines():
        _registry.add(*json.loads(_line))
    _dies_at(_registry, int(_nth))
    with serving(port=int(_port), registry=_registry):
        threading.Event().wait()
