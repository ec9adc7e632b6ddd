"""A server of PostgreSQL for all tests of deliveries, and a database for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.postgres import PASSWORD, WHY_NOT, Database, PostgresServer, find_server


@pytest.fixture(scope="package")
def server() -> Iterator[PostgresServer]:
    programs = find_server()
    if programs is None:
        pytest.skip(WHY_NOT)
    with PostgresServer(programs) as running:
        yield running


@pytest.fixture
def database(server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Database:
    """An empty one, with its password where libpq looks for it."""
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    return server.new_database()
