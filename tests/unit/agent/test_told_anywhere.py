"""What an agent has to tell is shown in whatever its standard output can show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from kcontrol.cli import agent


@pytest.mark.parametrize(
    ("charset", "shown"), [("utf-8", "ended: a → b"), ("iso-8859-1", r"ended: a \u2192 b")]
)
def test_words_of_a_node_that_the_hosts_encoding_does_not_have_end_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, charset: str, shown: str
) -> None:
    async def checked(*_: object) -> None:
        pass

    async def serve(
        _cluster: object, _options: object, _commands: object, tell: Callable[[str], None]
    ) -> None:
        tell("ended: a → b")
        tell("goes on")

    monkeypatch.setattr(agent, "check_cluster", checked)
    monkeypatch.setattr(agent, "ensure_topics", lambda *_: None)
    monkeypatch.setattr(agent, "ensure_cluster_topics", lambda *_: None)
    monkeypatch.setattr(agent, "serve", serve)
    asked = ["--name", "a", "--files", str(tmp_path), "--work-dir", str(tmp_path), "--no-archive"]
    done = CliRunner(charset=charset).invoke(agent.agent, [*asked, "--bootstrap-servers", "nobody:1"])
    assert done.exception is None
    assert done.output.splitlines() == [f"agent a {shown}", "agent a goes on"]
