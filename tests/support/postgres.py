"""A real PostgreSQL server that is installed on this machine, with a data directory and a port of its own."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import psycopg

from tests.support.patience import HANG_S
from tests.support.ports import free_ports

VARIABLE = "KCONTROL_TEST_POSTGRES"
WHY_NOT = (
    "no PostgreSQL server is installed on this machine: install one (postgresql), or name the directory of initdb with "
    f"{VARIABLE}"
)
PASSWORD = "p4ss word'of tests"
_TIMEOUT_S = 120
_DEBIAN = Path("/usr/lib/postgresql")
_SETTINGS = {
    "fsync": "off",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "log_statement": "none",
    "lc_messages": "C",
    "wal_level": "logical",
}


def find_server() -> Path | None:
    """The directory of initdb and pg_ctl: what KCONTROL_TEST_POSTGRES names, else the path's, else Debian's newest."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).parent
    found = sorted(
        _DEBIAN.glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]) if each.parts[-3].isdigit() else 0
    )
    return found[-1].parent if found else None


class PostgresServer:
    """Running for as long as the block does. The user `postgres` has PASSWORD over the network."""

    def __init__(self, programs: Path, settings: Mapping[str, str] | None = None) -> None:
        """settings: that are not as tests have them."""
        self._programs = programs
        self._settings = {**_SETTINGS, **(settings or {})}
        self.directory = Path(tempfile.mkdtemp(prefix="kcontrol-pg-"))
        (self.port,) = free_ports(1)
        self._user = _other_user()
        self._names = (f"test{number}" for number in itertools.count())

    def __enter__(self) -> PostgresServer:
        passwords = self.directory / "password"
        passwords.write_text(PASSWORD)
        if self._user is not None:
            for path in (self.directory, passwords):
                shutil.chown(path, self._user)
        self._run(
            *("initdb", "-D", str(self._data), "-U", "postgres", "--pwfile", str(passwords), "-E", "UTF8"),
            *("--auth-host=scram-sha-256", "--auth-local=reject", "--no-sync", "--locale=C"),
        )
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        settings = {**self._settings, "port": self.port, "unix_socket_directories": str(self.directory)}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._run(
            "pg_ctl", "-D", str(self._data), "-w", "-o", options, "-l", str(self.directory / "log"), "start"
        )

    def stop(self, how: str = "immediate") -> None:
        """how: as a crash, or `fast`, which ends sessions."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", how, "stop")

    def kill(self) -> None:
        """SIGKILL to all of its processes, as when the machine is gone."""
        first = psutil.Process(int((self._data / "postmaster.pid").read_text().split()[0]))
        family = [first, *first.children(recursive=True)]
        for each in family:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        _, left = psutil.wait_procs(family, HANG_S)
        assert not left, "it has not ended"

    def own_directory(self, path: Path) -> Path:
        """A new one that the server may write to."""
        path.mkdir()
        if self._user is not None:
            shutil.chown(path, self._user)
        return path

    def new_database(self) -> Database:
        """An empty one."""
        name = next(self._names)
        with self._connect("postgres") as session:
            session.execute(f"CREATE DATABASE {name} TEMPLATE template0")
        return Database(self, name)

    def _connect(self, database: str) -> Any:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=PASSWORD,
            dbname=database,
            autocommit=True,
        )

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            user=self._user,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{program} ended with {done.returncode}"


class Database:
    """One of a server."""

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server, self.name = server, name

    @property
    def url(self) -> str:
        """Without the password."""
        return f"postgresql://postgres@127.0.0.1:{self.server.port}/{self.name}"

    def run(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """One statement in a session of its own; its rows."""
        with self.server._connect(self.name) as session:
            done = session.execute(statement, values or None)
            return done.fetchall() if done.description else []

    @contextmanager
    def session(self) -> Iterator[Any]:
        """For transactions of a test's own."""
        with self.server._connect(self.name) as session:
            yield session


def _other_user() -> str | None:
    """The server refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
