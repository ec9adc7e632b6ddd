"""Two real nodes, one of which has an input and an output to itself; what it alone may do is right, and is run
again alike."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from confluent_kafka import Producer

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from tests.support.processes import ROOT, objects, run_kcontrol
from tests.support.topics import create_topic

pytestmark = [pytest.mark.timeout(900), pytest.mark.heavy]

FILE = ROOT / "tests" / "pipelines" / "pinned.py"
PATIENCE_S = 240.0
ROUNDS, EACH = 2, 150
INPUT_PARTITIONS = 3


def test_a_total_without_a_key_is_that_of_all_rows_though_there_are_two_nodes(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    name = f"pinned-{secrets.token_hex(3)}"
    env = {
        "PINNED_PIPELINE": name,
        "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "XDG_DATA_HOME": str(tmp_path / "home"),
    }
    for stem, partitions in (("amounts", INPUT_PARTITIONS), ("words", 4), ("total", 1), ("shouts", 4)):
        create_topic(settings, f"{name}-{stem}", partitions)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    numbers = range(ROUNDS * EACH)
    for begin in numbers[::EACH]:
        for number in numbers[begin : begin + EACH]:
            producer.produce(f"{name}-amounts", str(number), partition=number % INPUT_PARTITIONS)
            producer.produce(f"{name}-words", f"word-{number}", partition=number % 4)
        assert producer.flush(30) == 0
        done = run_kcontrol(
            *("run", str(FILE), "--until-caught-up", "--json", "--master", "local[1]"),
            env=env,
            cwd=tmp_path,
            timeout_s=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    (*_, last) = read_topics(settings.bootstrap_servers, [f"{name}-total"])
    assert last.value() == f"{sum(numbers)} of {len(numbers)}".encode()
    shouted = read_topics(settings.bootstrap_servers, [f"{name}-shouts"])
    assert sorted(message.value() or b"" for message in shouted) == sorted(
        f"WORD-{number}".encode() for number in numbers
    )
    checked = run_kcontrol(
        *("verify", str(FILE), "--json", "--master", "local[2]"), env=env, cwd=tmp_path, timeout_s=PATIENCE_S
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    verdicts = objects(checked.stdout)
    assert verdicts
    assert all(each["agrees"] for each in verdicts)
