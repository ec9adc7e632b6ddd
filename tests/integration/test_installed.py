"""kcontrol as it is installed: its wheel and docker/runtime.lock in a fresh environment,
and each kind of query run there."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from tests.pipelines.every_kind import OUTPUTS
from tests.support.processes import ROOT
from tests.support.topics import create_topic

EVENTS = [{"name": name, "n": n} for n, name in enumerate("abcab", start=1)]
OTHERS = [{"name": "a", "n": 10}]
COUNTED = [{"name": "a", "c": 2}, {"name": "b", "c": 2}, {"name": "c", "c": 1}]
EXPECTED = {
    "totals": [{"name": "a", "c": 5}, {"name": "b", "c": 7}, {"name": "c", "c": 3}],
    "joined": [{"name": "a", "n": 1, "m": 10}, {"name": "a", "n": 4, "m": 10}],
    "unique": [{"name": name} for name in "abc"],
    "functions": [{"name": each["name"], "doubled": each["n"] * 2, "length": 1} for each in EVENTS],
    "arrow": EVENTS,
    "kept": COUNTED,
    "rows": COUNTED,
    "frames": COUNTED,
}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the programs of an environment with kcontrol and nothing but what it depends on."""
    work = tmp_path_factory.mktemp("installed")
    source = work / "source"
    for name in ("kcontrol", "schemas"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md"):
        shutil.copy(ROOT / name, source / name)
    uv = [sys.executable, "-m", "uv"]
    python = str(work / "env" / "bin" / "python")
    for command in (
        [
            *uv,
            "build",
            "--quiet",
            "--wheel",
            "--no-build-isolation",
            "--python",
            sys.executable,
            "-o",
            str(work),
            str(source),
        ],
        [*uv, "venv", "--quiet", "--python", sys.executable, str(work / "env")],
        [
            *uv,
            "pip",
            "sync",
            "--quiet",
            "--python",
            python,
            "--require-hashes",
            str(ROOT / "docker" / "runtime.lock"),
        ],
    ):
        subprocess.run(command, check=True, timeout=900)
    [wheel] = work.glob("*.whl")
    subprocess.run(
        [*uv, "pip", "install", "--quiet", "--python", python, "--no-deps", str(wheel)],
        check=True,
        timeout=300,
    )
    return work / "env" / "bin"


@pytest.mark.heavy
@pytest.mark.timeout(1800)
def test_each_kind_of_query_runs(installed: Path, settings: ClusterSettings, tmp_path: Path) -> None:
    suffix = f"-{secrets.token_hex(3)}"
    for name in ("events", "others", *OUTPUTS):
        create_topic(settings, name + suffix)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for name, records in (("events", EVENTS), ("others", OTHERS)):
        for record in records:
            producer.produce(name + suffix, json.dumps(record).encode())
    assert producer.flush(30) == 0
    shutil.copy(ROOT / "tests" / "pipelines" / "every_kind.py", tmp_path / "every_kind.py")
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("KCONTROL_", "PYTHON", "VIRTUAL_ENV"))
    }
    ran = subprocess.run(
        [
            *(str(installed / "kcontrol"), "run", "every_kind.py", "--until-caught-up"),
            *("--bootstrap-servers", settings.bootstrap_servers, "--data-dir", str(tmp_path / "data")),
        ],
        env={**kept, "EVERY_KIND": suffix, "XDG_DATA_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
        cwd=tmp_path,
    )
    assert ran.returncode == 0, ran.stdout[-2_000:] + ran.stderr[-4_000:]
    for name in OUTPUTS:
        found = [
            json.loads(message.value())
            for message in read_topics(settings.bootstrap_servers, [name + suffix])
        ]
        assert sorted(map(json.dumps, found)) == sorted(map(json.dumps, EXPECTED[name])), name
