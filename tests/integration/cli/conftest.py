"""Commands against the shared broker, each test with names and a home of its own."""

from __future__ import annotations

import secrets
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.support.processes import run_kcontrol


class Command(Protocol):
    def __call__(self, *arguments: str, **env: str) -> CompletedProcess[str]: ...


@pytest.fixture
def command(settings: ClusterSettings, tmp_path: Path) -> Command:
    """Runs `kcontrol ...` in an empty directory; keywords are environment variables."""

    def run(*arguments: str, **env: str) -> CompletedProcess[str]:
        home = {
            "XDG_DATA_HOME": str(tmp_path / "home"),
            "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        }
        return run_kcontrol(*arguments, env={**home, **env}, cwd=tmp_path, timeout_s=120)

    return run


@pytest.fixture
def unique() -> str:
    """A part of a name that no other test has."""
    return secrets.token_hex(3)
