"""deltalake, which is there only where it was asked for, and its errors as kcontrol's.

Its runtime does not survive a fork: whoever uses it forks no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kcontrol.errors import ConfigurationError, DeliveryHaltedError, TargetAwayError

_PASSING = (
    "no space left",
    "quota exceeded",
    "timed out",
    "too many open files",
    "input/output error",
    "stale file handle",
    "connection",
)


def load_deltalake() -> Any:
    """The library. Raises ConfigurationError: it is not installed."""
    try:
        import deltalake
        import deltalake.exceptions
        import deltalake.transaction
    except ImportError as error:
        raise ConfigurationError(
            "delivering to Delta Lake needs deltalake, which is not installed: pip install 'kcontrol[delta]'"
        ) from error
    return deltalake


@contextmanager
def errors_told(where: str) -> Iterator[None]:
    """Raises what deltalake does as TargetAwayError, if another try may succeed, or DeliveryHaltedError."""
    errors = load_deltalake().exceptions
    try:
        yield
    except errors.CommitFailedError as error:
        raise TargetAwayError(f"{where}: nothing was committed: {_line(error)}") from error
    except (errors.DeltaError, OSError) as error:
        text = _line(error)
        passes = any(words in text.lower() for words in _PASSING)
        raise (TargetAwayError if passes else DeliveryHaltedError)(f"{where}: {text}") from error


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
