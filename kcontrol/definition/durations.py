"""Lengths of time as people write them: "100 ms", "60 s", "1.5 min", or a whole number of milliseconds."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

MAX_MS = 366 * 24 * 3_600_000

_UNIT_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TEXT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def duration_ms(value: str | int) -> int:
    """Milliseconds of a duration. Raises ValueError for what is none, or is longer than a year."""
    if isinstance(value, int) and not isinstance(value, bool):
        length_ms = value
    else:
        match = _TEXT.fullmatch(value) if isinstance(value, str) else None
        if match is None or match[2] not in _UNIT_MS:
            raise ValueError(
                "must be a duration such as '100 ms', '60 s', '5 min', '1 h', '1 d', or a number of "
                "milliseconds"
            )
        length_ms = round(float(match[1]) * _UNIT_MS[match[2]])
    if not 0 <= length_ms <= MAX_MS:
        raise ValueError("must be between 0 and 366 days")
    return length_ms


def span_text(length_ms: int) -> str:
    """For people, with its two largest units: 0.4 s, 12 s, 3 min 5 s, 2 h 4 min, 5 d 3 h."""
    if length_ms < 10_000:
        return f"{length_ms / 1000:.1f} s"
    left = length_ms
    parts: list[tuple[int, str]] = []
    for unit in ("d", "h", "min", "s"):
        count, left = divmod(left, _UNIT_MS[unit])
        if count or parts:
            parts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in parts[:2] if count)


def _checked(value: str | int) -> str | int:
    duration_ms(value)
    return value


def _positive(value: str | int) -> str | int:
    if duration_ms(value) == 0:
        raise ValueError("must be longer than 0 ms")
    return value


Duration = Annotated[str | int, BeforeValidator(_checked)]
PositiveDuration = Annotated[str | int, BeforeValidator(_positive)]
