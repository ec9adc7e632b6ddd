"""What a query gives back: frames, each with the outputs it serves. Frames are Spark's,
but nothing of Spark is imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, get_args

from kcontrol.definition.exchanges import SEND
from kcontrol.errors import ConfigurationError

_of_batches: ContextVar[bool] = ContextVar("kcontrol_of_batches", default=False)

OutputMode = Literal["append", "update", "complete"]


@dataclass(frozen=True, slots=True)
class OutputFrame:
    """A frame on its way to outputs. to: empty until it is known; several when the rows' column `output`
    tells which."""

    frame: Any
    mode: OutputMode = "append"
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FrameQuery:
    """One Spark query: a frame, its mode, and the outputs it serves. Named after the first of them.

    where: file and line of the function that gave it; '' if it came otherwise.
    sends: the exchange whose rows they are; '' if it is for outputs.
    """

    frame: Any
    mode: OutputMode
    outputs: tuple[str, ...]
    where: str = ""
    sends: str = ""

    @property
    def name(self) -> str:
        """No other frame of a pipeline has it, because each output is served by one frame."""
        return f"{self.sends}{SEND}" if self.sends else self.outputs[0]


@contextmanager
def batch_frames() -> Iterator[None]:
    """While queries are asked what they make of batch frames."""
    before = _of_batches.set(True)
    try:
        yield
    finally:
        _of_batches.reset(before)


def output(frame: Any, mode: OutputMode = "append") -> OutputFrame:
    """A streaming frame for one output, in one of Spark's output modes."""
    return OutputFrame(check_frame(frame), _checked_mode(mode))


def outputs(frame: Any, to: Sequence[str], mode: OutputMode = "append") -> OutputFrame:
    """One streaming frame for several outputs: its column `output` names the one that a row goes to.

    It is read and computed once, at the price of one query; the other columns are the same for all its
    outputs.
    """
    if isinstance(to, str) or not to or len(set(to)) != len(to):
        raise ConfigurationError(f"outputs(to={to!r}): give a list of different output names")
    return OutputFrame(check_frame(frame), _checked_mode(mode), tuple(to))


def frame_queries(where: str, query: str, result: Any, known: Sequence[str]) -> Iterator[FrameQuery]:
    """The Spark queries in what the query function named `query` returned.

    where: file and line of the function. known: the pipeline's outputs. Raises ConfigurationError.
    """
    if isinstance(result, Mapping):
        for name, value in result.items():
            made = _as_output(f"{where}: query {query!r}, output {name!r}", value)
            if made.to:
                raise ConfigurationError(
                    f"{where}: query {query!r}: return kcontrol.outputs(...) itself, not under {name!r}"
                )
            yield _served(where, query, made, (name,), known)
        return
    made = _as_output(f"{where}: query {query!r}", result)
    yield _served(where, query, made, made.to or (query,), known)


def _served(
    where: str, query: str, made: OutputFrame, to: tuple[str, ...], known: Sequence[str]
) -> FrameQuery:
    for name in to:
        if name not in known:
            raise ConfigurationError(
                f"{where}: query {query!r} gives a frame for output {name!r}, which the pipeline does not "
                f"have; its outputs are {', '.join(known)}; return a dictionary {{output: frame}}"
            )
    return FrameQuery(made.frame, made.mode, to, where)


def _as_output(where: str, value: Any) -> OutputFrame:
    if isinstance(value, OutputFrame):
        return value
    try:
        return output(value)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None


def _checked_mode(mode: Any) -> OutputMode:
    if mode not in get_args(OutputMode):
        raise ConfigurationError(f"mode = {mode!r}: must be 'append', 'update' or 'complete'")
    checked: OutputMode = mode
    return checked


def check_frame(frame: Any) -> Any:
    """The frame, if it is a streaming one. Raises ConfigurationError."""
    if not hasattr(frame, "isStreaming"):
        raise ConfigurationError(
            f"{type(frame).__name__} is not a DataFrame: return a frame made from the query's inputs"
        )
    if not frame.isStreaming and not _of_batches.get():
        raise ConfigurationError(
            "the frame is not a streaming one: make it from the query's inputs, and leave out writeStream"
        )
    return frame
