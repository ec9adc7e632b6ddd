"""What an exception in a user's query function says: one sentence, with file and line,
instead of Spark's many lines."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

from kcontrol.errors import ConfigurationError

MAX_CHARS = 1_000

_ACTION = "must be executed with writeStream"
_NO_ACTIONS = (
    "a query only says what is to be done, so it can't count, collect, show or write a stream: return the "
    "frame, and kcontrol runs it step by step"
)


class QueryError(ConfigurationError):
    """A query's own code failed when it was asked for its frames."""


def query_error(
    where: str, pipeline: str, query: str, function: Callable[..., Any], error: BaseException
) -> QueryError:
    """`error`, raised by a query's function, in one sentence. where: file and line of the function itself."""
    place = line_of(function, error) or where
    said = str(error) if isinstance(error, ConfigurationError) else in_one_line(error)
    return QueryError(f"{place}: pipeline {pipeline!r}, query {query!r}: {said}")


def line_of(function: Callable[..., Any], error: BaseException) -> str:
    """File and line of the innermost call within the function's own file; '' if the error came from
    elsewhere."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    file = code.co_filename if code is not None else ""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{file}, line {lines[-1]}" if lines else ""


def in_one_line(error: BaseException) -> str:
    """Class and message, without the plans and stack traces that Spark adds on further lines."""
    if isinstance(error, SystemExit):
        return f"it ended the process (sys.exit({error.code!r}))"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
    # py4j puts what it called before what came of it.
    first = (
        lines[1] if lines[0].startswith("An error occurred while calling") and len(lines) > 1 else lines[0]
    )
    if _ACTION in first:
        return _NO_ACTIONS
    return f"{type(error).__name__}: {first.rstrip(';')}"[:MAX_CHARS]
