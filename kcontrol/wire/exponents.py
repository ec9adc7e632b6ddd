"""Exponents of numbers of which no DECIMAL can be made in a bounded time (docs/values.md): a step calls a record with one bad,
and whoever takes rows refuses it."""

from __future__ import annotations

LARGE = "[eE][+-]?0*[1-9][0-9]{5,}"
"""One of six digits or more, as an expression for Python and for Java."""
