"""pyiceberg, which is there only where it was asked for, and its errors as kcontrol's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from kcontrol.adapters.lake.record import gone
from kcontrol.errors import ConfigurationError, DeliveryHaltedError, TargetAwayError

_FINAL_IN_DATABASE = (
    "no such table",
    "does not exist",
    "authentication failed",
    "permission denied",
    "unable to open database file",
    "readonly database",
    "no password supplied",
)
"""Of what a database that can't be asked says. Whatever else it says (it is away, locked, full) may pass."""
_PASSING_ON_DISK = (
    "no space left",
    "quota exceeded",
    "timed out",
    "timeout",
    "too many open files",
    "input/output error",
    "stale file handle",
    "connection",
    "slow down",
    "service unavailable",
)


def load_pyiceberg() -> Any:
    """What is used of the library. Raises ConfigurationError: it is not installed."""
    try:
        import pyiceberg.exceptions as exceptions
        import sqlalchemy.exc as sql
        from pyiceberg.catalog import load_catalog
        from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
        from pyiceberg.table import TableProperties
        from pyiceberg.utils.config import Config
    except ImportError as error:
        raise ConfigurationError(
            "delivering to Iceberg needs pyiceberg, which is not installed: pip install 'kcontrol[iceberg]'"
        ) from error
    return SimpleNamespace(
        exceptions=exceptions,
        sql=sql,
        load_catalog=load_catalog,
        pyarrow_to_schema=pyarrow_to_schema,
        schema_to_pyarrow=schema_to_pyarrow,
        TableProperties=TableProperties,
        Config=Config,
    )


@contextmanager
def iceberg_errors_told(where: str, *, was_there: bool = False) -> Iterator[None]:
    """Raises what pyiceberg does as TargetAwayError, if another try may succeed, or DeliveryHaltedError. was_there: files
    that are not found were there before."""
    library = load_pyiceberg()
    errors = library.exceptions
    others = tuple(each for each in vars(errors).values() if isinstance(each, type))
    try:
        yield
    except errors.CommitFailedException as error:
        raise TargetAwayError(f"{where}: nothing was committed: {_line(error)}") from error
    except (ModuleNotFoundError, errors.NotInstalledError) as error:
        raise DeliveryHaltedError(f"{where}: {_line(error)}: install what the catalog needs") from error
    except library.sql.DBAPIError as error:
        text = _line(error.orig or error)
        is_final = isinstance(error, library.sql.ProgrammingError) or _has(text, _FINAL_IN_DATABASE)
        raise (DeliveryHaltedError if is_final else TargetAwayError)(
            f"{where}: its catalog's database: {text}"
        ) from error
    except FileNotFoundError as error:
        raise gone(where) if was_there else DeliveryHaltedError(f"{where}: {_line(error)}") from error
    except OSError as error:
        text = _line(error)
        passes = _has(text, _PASSING_ON_DISK)
        raise (TargetAwayError if passes else DeliveryHaltedError)(f"{where}: {text}") from error
    except (*others, library.sql.SQLAlchemyError, ValueError, NotImplementedError) as error:
        raise DeliveryHaltedError(f"{where}: {_line(error)}") from error


def _has(text: str, words: tuple[str, ...]) -> bool:
    return any(each in text.lower() for each in words)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
