"""A host has Java's class archive before the first node comes to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kcontrol.cli import agent


@pytest.mark.parametrize(("asked", "made"), [((), True), (("--no-archive",), False)])
def test_an_agent_has_the_archive_made(
    asked: tuple[str, ...], made: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[str] = []

    async def nothing(*_: Any) -> None:
        """What an agent does against Kafka."""

    monkeypatch.setattr(agent, "make_in_background", lambda: begun.append("archive"))
    for name in ("ensure_topics", "ensure_cluster_topics"):
        monkeypatch.setattr(agent, name, lambda _cluster: None)
    for name in ("check_cluster", "serve"):
        monkeypatch.setattr(agent, name, nothing)
    options = ["--files", str(tmp_path), "--work-dir", str(tmp_path), "--bootstrap-servers", "localhost:1"]
    done = CliRunner().invoke(agent.agent, [*options, *asked])
    assert done.exit_code == 0, done.output
    assert begun == (["archive"] if made else [])
