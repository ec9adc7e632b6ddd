"""psycopg, which is there only where it was asked for, and its errors as kcontrol's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kcontrol.errors import ConfigurationError, DeliveryHaltedError, TargetAwayError

_RETRIED_CLASSES = ("08", "40", "53", "57", "58")
"""Of SQLSTATE: connection, rollback, resources, an operator's intervention, the system."""
_RETRIED = ("25006", "25P03", "25P04", "55P03", "55006")
"""A server that only reads (for now), a session that was idle for too long, a lock that was not had in time."""
_FOR_NOW = (
    "starting up",
    "shutting down",
    "recovery",
    "too many",
    "remaining connection slots",
    "not yet accepting",
    "administrator command",
    # Of a pooler, whose server is away.
    "server_login_retry",
    "cannot connect to server",
    "query_wait_timeout",
    "no more connections allowed",
)


def load_psycopg() -> Any:
    """The library. Raises ConfigurationError: it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise ConfigurationError(
            "delivering to PostgreSQL needs psycopg, which is not installed: pip install 'kcontrol[postgres]'"
        ) from error
    return psycopg


@contextmanager
def errors_told(where: str) -> Iterator[None]:
    """Raises what psycopg does as TargetAwayError, if another try may succeed, or DeliveryHaltedError. where: the
    database, and what was done with it."""
    psycopg = load_psycopg()
    try:
        yield
    except psycopg.Error as error:
        text = told(error)
        if may_succeed_later(error):
            raise TargetAwayError(f"{where}: {text}") from error
        raise DeliveryHaltedError(f"{where}: {text}") from error


def told(error: Any) -> str:
    """One line: what the server said, and of which row."""
    diagnosis = error.diag
    if diagnosis.message_primary is None:
        return " ".join(str(error).split()) or type(error).__name__
    parts = [diagnosis.message_primary, diagnosis.message_detail, diagnosis.message_hint]
    context = (diagnosis.context or "").partition("\n")[0]
    return ". ".join(part.rstrip(".") for part in [*parts, context] if part)


def may_succeed_later(error: Any) -> bool:
    """Whether the fault is one of the moment."""
    psycopg = load_psycopg()
    if error.sqlstate is not None:
        return str(error.sqlstate).startswith(_RETRIED_CLASSES) or error.sqlstate in _RETRIED
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    # A refused connection has no code: what the server itself has answered is final, unless it says otherwise.
    text = str(error)
    return "FATAL" not in text or any(words in text for words in _FOR_NOW) or "connection is lost" in text
