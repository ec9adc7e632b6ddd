"""Commands against the shared broker, each test with names and a home of its own."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from subprocess import CompletedProcess
from typing import Protocol

import pytest

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.processes import run_kcontrol
from tests.unit.core.made import SPEC


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
        return run_kcontrol(*arguments, env={**home, **env}, cwd=tmp_path, timeout_s=HANG_S)

    return run


@pytest.fixture
def unique() -> str:
    """A part of a name that no other test has."""
    return secrets.token_hex(3)


def own_cluster(settings: ClusterSettings, prefix: str, directory: Path) -> ClusterSettings:
    """Names of its own, which commands in the directory find in its `kcontrol.toml`, and topics for `p`."""
    own = settings.model_copy(update={"prefix": prefix})
    (directory / "kcontrol.toml").write_text(f'[kafka]\nprefix = "{prefix}"\n')
    ensure_topics(own, "p")
    return own


def define(cluster: ClusterSettings) -> None:
    """The pipeline `p`, which has a node and no file: it never makes a step."""

    async def append() -> None:
        log = await KafkaControlLog.open(cluster, "p")
        try:
            await log.append([SPEC])
        finally:
            await log.close()

    asyncio.run(append())
