"""Without psycopg one sentence says what to install; its errors are told apart."""

from __future__ import annotations

import sys

import psycopg
import pytest

from kcontrol.adapters.postgres.library import errors_told, load_psycopg
from kcontrol.errors import ConfigurationError, DeliveryHaltedError, TargetAwayError


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'kcontrol\[postgres\]'"):
        load_psycopg()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (psycopg.errors.AdminShutdown("x"), TargetAwayError),
        (psycopg.errors.DiskFull("x"), TargetAwayError),
        (psycopg.errors.QueryCanceled("x"), TargetAwayError),
        (psycopg.OperationalError("connection refused"), TargetAwayError),
        (psycopg.OperationalError("FATAL:  the database system is starting up"), TargetAwayError),
        (
            psycopg.OperationalError("FATAL:  terminating connection due to administrator command"),
            TargetAwayError,
        ),
        (
            psycopg.OperationalError("FATAL:  server login has been failing, try later (server_login_retry)"),
            TargetAwayError,
        ),
        (psycopg.OperationalError("FATAL:  query_wait_timeout"), TargetAwayError),
        (
            psycopg.OperationalError('FATAL:  password authentication failed for user "x"'),
            DeliveryHaltedError,
        ),
        (psycopg.errors.UndefinedTable("x"), DeliveryHaltedError),
        (psycopg.errors.UniqueViolation("x"), DeliveryHaltedError),
        (psycopg.errors.InsufficientPrivilege("x"), DeliveryHaltedError),
    ],
)
def test_an_error_is_one_of_the_moment_or_a_person_s(error: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="database d: "), errors_told("database d"):
        raise error
