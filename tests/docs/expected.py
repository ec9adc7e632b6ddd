"""Compares what a page says a command prints with what it printed: the same words, whatever
the numbers and names of the day.

Each line that is shown must be printed, in that order; a line `...` stands for any others. Compared are
words: numbers, times, digests, and paths are any number, time, digest, or path.
"""

from __future__ import annotations

import re

ANY = "..."

_ALIKE = (
    (re.compile(r"\x1b\[[0-9;]*m"), ""),
    (re.compile(r"\b[0-9a-f]{16,}\b"), "HEX"),
    (re.compile(r"(?<![\w/])~?(?:/[\w.+-]+){2,}/?"), "PATH"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"-?\d[\d,]*(?:\.\d+)?"), "N"),
    (re.compile(r"\s+"), " "),
)


def alike(line: str) -> str:
    """The line without what differs from run to run."""
    for pattern, name in _ALIKE:
        line = pattern.sub(name, line)
    return line.strip()


def missing(shown: str, printed: str) -> str | None:
    """The first line of `shown` that was not printed after those before it; None if all were."""
    left = iter([alike(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        wanted = alike(line)
        if not wanted or line.strip() == ANY:
            continue
        cut = wanted.endswith(ANY)
        stem = wanted.removesuffix(ANY).rstrip()
        if not any(each.startswith(stem) if cut else each == wanted for each in left):
            return line
    return None
