"""Halves of surrogate pairs, which JSON can name by an escape and which are no characters: UTF-8 has no bytes for them. So a
text with one can be parsed, and not written anywhere."""

from __future__ import annotations

import re
from typing import Any

_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")

HALF = "half of a pair of surrogates"


def is_half(text: str) -> bool:
    """Whether there is one in it."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def may_have_half(json_text: str) -> bool:
    """Whether it is worth to look for one in what it says."""
    return _ESCAPE.search(json_text) is not None


def has_half(value: Any) -> bool:
    """Whether there is one in a value of JSON, of whatever depth, or in a name."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            if is_half(each):
                return True
        elif isinstance(each, dict):
            left += [*each, *each.values()]
        elif isinstance(each, list):
            left += each
    return False
