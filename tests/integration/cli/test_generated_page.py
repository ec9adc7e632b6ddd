"""docs/howto/generate.md: its pipeline and its commands, word for word."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from tests.docs.blocks import blocks_of
from tests.support.processes import run_kcontrol

pytestmark = [pytest.mark.timeout(900), pytest.mark.heavy]

PAGE = "docs/howto/generate.md"
PATIENCE_S = 400.0
ROWS, DEVICES = 20_000, 50


def test_the_page_comes_true(settings: ClusterSettings, tmp_path: Path) -> None:
    blocks = blocks_of(PAGE)
    program = next(block for block in blocks if block.title == "sensors.py")
    (tmp_path / "sensors.py").write_text(program.text)
    env = {
        "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "XDG_DATA_HOME": str(tmp_path / "home"),
    }
    [commands] = [block for block in blocks if block.language == "bash"]
    for line in commands.text.strip().splitlines():
        program_name, *arguments = shlex.split(line)
        assert program_name == "kcontrol"
        ran = run_kcontrol(*arguments, env=env, cwd=tmp_path, timeout_s=PATIENCE_S)
        assert ran.returncode == 0, ran.stdout + ran.stderr
    newest = {}
    for message in read_topics(settings.bootstrap_servers, ["averages"]):
        newest[message.key()] = json.loads(message.value())
    assert len(newest) == DEVICES
    assert sum(row["readings"] for row in newest.values()) == ROWS
    told = run_kcontrol("status", "sensors", "--json", env=env, timeout_s=PATIENCE_S)
    waiting = {each["input"]: each["waiting"] for each in json.loads(told.stdout)["inputs"]}
    assert waiting["readings"] == 0
    refused = (tmp_path / "sensors.py").read_text().replace("seed=7", "seed=8")
    (tmp_path / "sensors.py").write_text(refused)
    other = run_kcontrol("submit", "sensors.py", env=env, cwd=tmp_path, timeout_s=PATIENCE_S)
    assert other.returncode != 0
    assert "sensors" in other.stderr
