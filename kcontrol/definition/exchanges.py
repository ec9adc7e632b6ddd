"""Rows that meet by key across nodes: what a query says of it, and what is known of an exchange once its pipeline is bound.

Frames are Spark's, but nothing of Spark is imported: who binds a pipeline says, for as long as its queries are asked
for their frames, what an exchange makes of a frame.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

from kcontrol.errors import ConfigurationError
from kcontrol.wire.names import check_part_name

ExchangeCompression = Literal["none", "lz4", "zstd"]

SEND = ".send"
"""In the name of a query; no user's query has a dot in its name."""
DELIVER = "-deliver"
"""In the name of an exchange, whose topic is called after it; no user's exchange has a hyphen in its name."""


@dataclass(frozen=True, slots=True)
class ExchangeFacts:
    """One exchange of a bound pipeline. name, by, sender, stage and delivers: see ExchangeSpec.

    compression: of the rows on their way. schema: of the rows that are exchanged, as Spark writes it in JSON;
    '' where they are records on their way to an output. combine: a text for each column that rows with equal keys are
    brought to before.
    """

    name: str
    by: tuple[str, ...]
    stage: int
    sender: str
    compression: ExchangeCompression = "lz4"
    delivers: str = ""
    schema: str = ""
    combine: tuple[str, ...] = ()


class Binding(Protocol):
    """A pipeline whose queries are being bound to a session."""

    def exchange(
        self, frame: Any, by: Any, *, combine: Any, name: str | None, compression: ExchangeCompression
    ) -> Any:
        """As the function of that name. Raises ConfigurationError."""
        ...


_under_way: ContextVar[Binding | None] = ContextVar("kcontrol_binding", default=None)
_asked: ContextVar[str] = ContextVar("kcontrol_asked_query", default="")


@contextmanager
def binding(binds: Binding) -> Iterator[None]:
    """While queries are asked for their frames."""
    before = _under_way.set(binds)
    try:
        yield
    finally:
        _under_way.reset(before)


@contextmanager
def asking(query: str) -> Iterator[None]:
    """While a query's function is asked for its frames."""
    before = _asked.set(query)
    try:
        yield
    finally:
        _asked.reset(before)


def asked_query() -> str:
    """The query whose function is being asked; '' for none."""
    return _asked.get()


def exchange(
    frame: Any,
    by: Any,
    *,
    combine: Any = None,
    name: str | None = None,
    compression: ExchangeCompression = "lz4",
) -> Any:
    """A streaming frame with the rows of `frame`, all that are equal in `by` on one node.

    It has the same columns, types and watermark. With one node it is `frame` itself with the columns `by`.

    by: a column, an expression with a name, or a list of them, each of which becomes a column of the result;
        [] brings all rows to one node. What is behind the exchange groups, joins and keeps state by exactly these
        columns, in this order.
    combine: aggregates with names, as `groupBy().agg()` takes them: count, sum, min and max of a column. Each node brings
        its rows of a step to one for each `by` before it sends them; the result has the columns `by`, these, and that of
        event time, if there is a watermark. What is behind groups them and merges each again: counts and sums with sum,
        min with min, max with max. With one node nothing is combined, and what is merged is the same.
    name: of the exchange, in its topic's name; by default the query's with a number.
    compression: of the rows on their way: "none", "lz4" or "zstd".

    To be called within a function given to `pipeline.query`; an attached application has `app.exchange`. Raises
    ConfigurationError.
    """
    binds = _under_way.get()
    if binds is None:
        raise ConfigurationError(
            "kcontrol.exchange() is for a function given to @pipeline.query, while kcontrol asks it for its frames; "
            "an attached application has app.exchange()"
        )
    return binds.exchange(frame, by, combine=combine, name=name, compression=compression)


def as_list(by: Any) -> list[Any]:
    """What was given as `by`, one or several."""
    return list(by) if isinstance(by, Sequence) and not isinstance(by, str | bytes) else [by]


def check_words(name: str | None, compression: Any) -> None:
    """Raise ConfigurationError for what no exchange can be given."""
    if name is not None:
        if not isinstance(name, str):
            raise ConfigurationError(f"exchange(name={name!r}): must be text")
        check_part_name("exchange", name)
    if compression not in get_args(ExchangeCompression):
        raise ConfigurationError(f"exchange(compression={compression!r}): must be 'none', 'lz4' or 'zstd'")
