"""A first look at a schema in words (DDL), without Spark: a misspelt type is told before anything slow
starts.

What this does not recognize is left to Spark, which has the last word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

TYPES = frozenset(
    {
        *(
            "array",
            "bigint",
            "binary",
            "boolean",
            "byte",
            "char",
            "character",
            "date",
            "dec",
            "decimal",
            "double",
            "float",
        ),
        *(
            "geography",
            "geometry",
            "int",
            "integer",
            "interval",
            "long",
            "map",
            "numeric",
            "real",
            "short",
            "smallint",
        ),
        *(
            "string",
            "struct",
            "time",
            "timestamp",
            "timestamp_ltz",
            "timestamp_ntz",
            "tinyint",
            "varchar",
            "variant",
            "void",
        ),
    }
)
"""As Spark's parser knows them, in any case of letters."""

_FIELD = re.compile(r"\s*(?:`(?:[^`]|``)+`|\w+)(?:\s*:\s*|\s+)(?P<type>[A-Za-z]\w*)(?P<rest>.*)", re.DOTALL)


def unknown_type(ddl: str) -> tuple[str, str] | None:
    """The first word that stands where a type belongs and is none, and the type that was
    meant, it seems ('' for none)."""
    word = next((each for each in _type_words(ddl) if each.lower() not in TYPES), None)
    if word is None:
        return None
    return word, next(iter(get_close_matches(word.lower(), sorted(TYPES), 1)), "").upper()


def _type_words(fields: str) -> Iterator[str]:
    for field in split_at_commas(fields):
        match = _FIELD.fullmatch(field)
        if match is not None:
            yield match["type"]
            yield from _inner(match["type"].lower(), match["rest"])


def _inner(kind: str, rest: str) -> Iterator[str]:
    """Types within an array, map or struct."""
    begin, end = rest.find("<"), rest.rfind(">")
    if not 0 <= begin < end or rest[:begin].strip():
        return
    inside = rest[begin + 1 : end]
    if kind == "struct":
        yield from _type_words(inside)
    elif kind in ("array", "map"):
        for part in split_at_commas(inside):
            match = re.fullmatch(r"\s*([A-Za-z]\w*)(.*)", part, re.DOTALL)
            if match is not None:
                yield match[1]
                yield from _inner(match[1].lower(), match[2])


def split_at_commas(text: str) -> Iterator[str]:
    """At the commas that are in no brackets and no quotes."""
    depth, begin, quote = 0, 0, ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'\"":
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth == 0:
            yield text[begin:at]
            begin = at + 1
    yield text[begin:]
