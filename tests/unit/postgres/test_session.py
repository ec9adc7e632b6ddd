"""What a connection to PostgreSQL is asked to be."""

from __future__ import annotations

import psycopg
import pytest

from kcontrol.adapters.postgres.session import DatabaseAddress, SessionLimits
from kcontrol.errors import TargetAwayError


def _asked(address: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    asked: dict[str, object] = {}

    def connect(**given: object) -> None:
        asked.update(given)
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr(psycopg, "connect", connect)
    with pytest.raises(TargetAwayError):
        DatabaseAddress(address).connect("a delivery", SessionLimits(statement_s=60.0))
    return asked


def test_a_server_whose_host_is_gone_is_found_to_be_away(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked("postgresql://etl@db/shop", monkeypatch)
    assert (asked["keepalives_idle"], asked["keepalives_interval"], asked["keepalives_count"]) == (10, 10, 6)
    assert asked["tcp_user_timeout"] == 70_000


def test_the_address_may_say_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked("postgresql://etl@db/shop?keepalives_idle=99&tcp_user_timeout=5", monkeypatch)
    assert (asked["keepalives_idle"], asked["tcp_user_timeout"]) == ("99", "5")
