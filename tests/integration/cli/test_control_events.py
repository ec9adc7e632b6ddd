"""docs/howto/control-events.md: its programs, in Python and in Java, ask a real coordinator
for something, and it is done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcontrol.adapters.java import find_java
from kcontrol.adapters.kafka.embedded.artifacts import ensure_jars
from kcontrol.core.model import PipelinePhase
from kcontrol.settings.cluster import ClusterSettings
from tests.docs.blocks import Block, blocks_of
from tests.docs.expected import missing
from tests.integration.cli.conftest import define, own_cluster
from tests.support.looking import control_view
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, until

PAGE = "docs/howto/control-events.md"
PATIENCE_S = HANG_S
SERVERS, TOPIC, PIPELINE = "127.0.0.1:9092", "kcontrol.control", "flights"


def program(title: str) -> str:
    (found,) = [block.text for block in blocks_of(PAGE) if block.title == title]
    return found


def shown() -> list[Block]:
    return [block for block in blocks_of(PAGE) if block.rule == "prints"]


@pytest.fixture
def cluster(settings: ClusterSettings, unique: str, tmp_path: Path) -> Iterator[ClusterSettings]:
    """With a coordinator that looks after `p`, which is no node's and so never makes a step."""
    own = own_cluster(settings, f"e{unique}", tmp_path)
    define(own)
    env = {"KCONTROL_BOOTSTRAP_SERVERS": own.bootstrap_servers}
    with KcontrolProcess("coordinator", log=tmp_path / "coordinator.log", env=env, cwd=tmp_path) as process:
        process.says("is ready", PATIENCE_S)
        yield own
        assert process.terminate() == 0


def phase(cluster: ClusterSettings) -> PipelinePhase | None:
    status = control_view(cluster, "p").status()
    return None if status is None else status.phase


def run(command: list[str], directory: Path) -> str:
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_programs_of_the_page_are_obeyed(cluster: ClusterSettings, tmp_path: Path) -> None:
    in_python, in_java = (block.text.replace(PIPELINE, "p") for block in shown())
    text = program("say.py")
    assert SERVERS in text
    assert TOPIC in text
    control = cluster.names().control_topic()
    (tmp_path / "say.py").write_text(text.replace(SERVERS, cluster.bootstrap_servers).replace(TOPIC, control))
    printed = run([sys.executable, "say.py", "p", "paused"], tmp_path)
    assert missing(in_python, printed) is None, printed
    assert phase(cluster) is PipelinePhase.PAUSED

    if shutil.which("javac") is None:
        pytest.skip("no Java compiler")
    (tmp_path / "Say.java").write_text(program("Say.java"))
    jars = os.pathsep.join(map(str, ensure_jars()))
    java = str(find_java().executable)
    printed = run(
        [java, "-cp", jars, "Say.java", cluster.bootstrap_servers, control, "p", "running"], tmp_path
    )
    assert missing(in_java, printed) is None, printed
    until(lambda: phase(cluster) is PipelinePhase.STARTING, "it is wanted again", PATIENCE_S)
