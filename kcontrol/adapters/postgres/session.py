"""Connections to PostgreSQL: what an address may hold, what a session is told, and nothing of a password."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kcontrol.adapters.postgres.library import errors_told, load_psycopg
from kcontrol.errors import ConfigurationError

_SECRETS = ("password", "sslpassword")
_OLDEST = 120_000
_GONE_AFTER_MS = 10_000


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """connect_s: for a connection. statement_s: for a single statement, such as the COPY of one batch; the server
    ends a session that holds a transaction and says nothing for as long, and a server whose host is gone is taken for away
    soon after that. lock_s: for a lock that others hold."""

    connect_s: int = 10
    statement_s: float = 60.0
    lock_s: float = 20.0


class DatabaseAddress:
    """Of a database: a URL or what libpq calls a connection string, as its program psql takes it."""

    def __init__(self, text: str, password_file: Path | None = None) -> None:
        """password_file: the password is its first line. Raises ConfigurationError: the text is no address, or has
        a password in it; the file can't be read."""
        psycopg = load_psycopg()
        try:
            self._parts: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(text)
        except psycopg.ProgrammingError:
            # What the library says of it repeats the text, and there may be a password in that.
            raise ConfigurationError(
                "--to is no address of a database: give postgresql://USER@HOST:PORT/DATABASE"
            ) from None
        for name in _SECRETS:
            if self._parts.get(name):
                raise ConfigurationError(
                    f"--to has a {name} in it, which everybody on this machine can see: leave it out, and give it "
                    "as PGPASSWORD, in ~/.pgpass, or in a file with --password-file"
                )
        self._password = "" if password_file is None else _first_line(password_file)

    def __str__(self) -> str:
        parts = {name: self._parts.get(name) for name in ("host", "port", "dbname")}
        port = f":{parts['port']}" if parts["port"] else ""
        return f"PostgreSQL {parts['host'] or 'here'}{port}, database {parts['dbname'] or 'of the user'}"

    @property
    def url(self) -> str:
        """Host, port and database alone."""
        host, port, name = (str(self._parts.get(part) or "") for part in ("host", "port", "dbname"))
        # A directory is that of a socket of this machine.
        place = "" if host.startswith("/") else f"{host}{f':{port}' if port else ''}"
        return f"postgresql://{place}/{name}"

    def connect(self, name: str, limits: SessionLimits) -> Any:
        """A session, which commits each statement outside of a transaction at once. name: what the server's list of
        sessions shows. Raises TargetAwayError, DeliveryHaltedError."""
        psycopg = load_psycopg()
        own = {"connect_timeout": limits.connect_s, "application_name": name[:63]}
        given = {**own, **_noticed_within(limits.statement_s), **self._parts}
        if self._password:
            given["password"] = self._password
        statement_ms, lock_ms = int(limits.statement_s * 1000), int(limits.lock_s * 1000)
        with errors_told(str(self)):
            session = psycopg.connect(**given, autocommit=True)
            if session.info.server_version < _OLDEST:
                session.close()
                raise ConfigurationError(f"{self}: its version is older than 12")
            for setting, value in {
                "statement_timeout": statement_ms,
                "lock_timeout": lock_ms,
                "idle_in_transaction_session_timeout": statement_ms,
                "TimeZone": "UTC",
                "DateStyle": "ISO, YMD",
                "standard_conforming_strings": "on",
                "client_encoding": "UTF8",
                # Else a commit that was told of could be lost with the server's machine.
                "synchronous_commit": "on",
            }.items():
                session.execute("SELECT set_config(%s, %s, false)", (setting, str(value)))
        return session


def _noticed_within(statement_s: float) -> dict[str, int]:
    """Of a connection: or an answer is waited for for hours, as the system has it, from a host that is gone. Longer than any
    statement, for while one waits its rows are not taken."""
    most_ms = int(statement_s * 1000) + _GONE_AFTER_MS
    return {
        "keepalives_idle": 10,
        "keepalives_interval": 10,
        "keepalives_count": 6,
        "tcp_user_timeout": most_ms,
    }


def _first_line(file: Path) -> str:
    try:
        line = file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"--password-file {file}: can't be read: {error}") from error
    if not line:
        raise ConfigurationError(f"--password-file {file}: its first line is empty")
    return line
