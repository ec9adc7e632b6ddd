"""Tables of a real PostgreSQL server of the bench's own. It has the time of each commit (`track_commit_timestamp`), and each
row has the transaction that it is of."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.deliver.columns import BATCHES, KEY, POSTGRES, TABLE, UPSERT
from bench.deliver.rows import Amounts, Numbers
from bench.deliver.tables import TargetMissingError

SETTINGS = {
    "fsync": "on",
    "shared_buffers": "128MB",
    "wal_level": "replica",
    "track_commit_timestamp": "on",
}
"""Where tests have it quicker, as it is by default; and the times of commits."""
_COMMITTED_MS = "extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000"


@dataclass(frozen=True)
class PostgresTable:
    """In a database of its own, beside the number of Spark's last batch. database: of tests.support.postgres."""

    database: Any
    mode: str

    @property
    def to(self) -> str:
        """See DeliveredTable."""
        return str(self.database.url)

    @property
    def deliver_options(self) -> Sequence[str]:
        """See DeliveredTable."""
        return ("--table", TABLE, "--mode", self.mode, *(("--key", KEY) if self.mode == UPSERT else ()))

    def step(self) -> int:
        """See DeliveredTable."""
        if self.database.run("SELECT to_regclass('kcontrol_steps')") == [(None,)]:
            return 0
        return max((int(step) for (step,) in self.database.run("SELECT step FROM kcontrol_steps")), default=0)

    def moments_ms(self) -> list[float]:
        """See DeliveredTable. Of those of which rows are left, and of each step some are."""
        query = f"SELECT {_COMMITTED_MS} FROM {TABLE} GROUP BY xmin ORDER BY 1"
        return [float(at_ms) for (at_ms,) in self.database.run(query)]

    def columns(self) -> tuple[Numbers, Numbers, Amounts]:
        """See DeliveredTable."""
        found = self.database.run(f"SELECT id, number, amount FROM {TABLE}")
        ids, numbers, amounts = zip(*found, strict=True) if found else ((), (), ())
        return np.array(ids, np.int64), np.array(numbers, np.int64), np.array(amounts, np.float64)


class PostgresTables:
    """Of one server."""

    def __init__(self, server: Any, password: str) -> None:
        self._server = server
        self.environment = {"PGPASSWORD": password}

    def new(self, mode: str) -> PostgresTable:
        """See Tables."""
        database = self._server.new_database()
        primary = f", PRIMARY KEY ({KEY})" if mode == UPSERT else ""
        database.run(f"CREATE TABLE {TABLE} ({POSTGRES}{primary})")
        database.run(f"CREATE TABLE {BATCHES} (query text PRIMARY KEY, batch bigint NOT NULL)")
        return PostgresTable(database, mode)


@contextmanager
def postgres_tables() -> Iterator[PostgresTables]:
    """While a server runs. Raises TargetMissingError."""
    if importlib.util.find_spec("psycopg") is None:
        raise TargetMissingError(
            "Delivering to PostgreSQL needs psycopg, which is not installed: pip install 'kcontrol[postgres]'."
        )
    from tests.support.postgres import PASSWORD, WHY_NOT, PostgresServer, find_server

    programs = find_server()
    if programs is None:
        raise TargetMissingError(f"{WHY_NOT[0].upper()}{WHY_NOT[1:]}.")
    with PostgresServer(programs, SETTINGS) as server:
        yield PostgresTables(server, PASSWORD)
