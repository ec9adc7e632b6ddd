"""A pipeline without a producer, two nodes and a coordinator, which are killed: each row once, as its number says."""

from __future__ import annotations

import json
import random
import secrets
from pathlib import Path
from typing import Any

import pytest

from examples.topic_reading import read_topics
from kcontrol.adapters.generated.rows import read_rows
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.addresses import ROWS_ID, GeneratorAddress, address_of
from tests.support.dice import say_seed, seed_of_run
from tests.support.following import until_status
from tests.support.processes import ROOT, KcontrolProcess, run_kcontrol
from tests.support.topics import create_topic

pytestmark = [pytest.mark.timeout(2_400), pytest.mark.heavy]

FILE = ROOT / "tests" / "pipelines" / "generated.py"
ROWS = 12_000
PATIENCE_S = 900.0
KILLS = 4


def test_every_row_is_there_once_after_sigkills_of_two_nodes_and_a_coordinator(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    name = f"generated-{secrets.token_hex(3)}"
    create_topic(settings, f"{name}-rows", 4)
    env = {
        "GENERATED_PIPELINE": name,
        "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
        "XDG_DATA_HOME": str(tmp_path / "home"),
    }

    def until(condition: Any, what: str) -> None:
        until_status(settings, name, condition, what, PATIENCE_S)

    def node(number: int) -> KcontrolProcess:
        where = ["--node", str(number), "--work-dir", str(tmp_path / "work"), "--master", "local[1]"]
        return KcontrolProcess("node", str(FILE), *where, log=tmp_path / f"node-{number}.log", env=env)

    member = ["coordinator", "--instance", name]
    coordinator = KcontrolProcess(*member, log=tmp_path / "coordinator.log", env=env)
    with coordinator, node(0) as first, node(1) as second:
        first.says("joins", PATIENCE_S)
        until(lambda status: status.step >= 1, "a first step")
        for _ in range(KILLS):
            doomed = dice.choice([first, second, coordinator])
            step = until_status(settings, name, lambda _: True, "a status", PATIENCE_S).step
            doomed.kill()
            doomed.sweep()
            doomed.start()
            until(lambda status, seen=step: status.step >= seen + 2, "steps go on")
        until(lambda status: status.step > 1 and _read(settings, name) == ROWS, "all rows are committed")
        verified = run_kcontrol("verify", str(FILE), env=env, timeout_s=PATIENCE_S)
        assert verified.returncode == 0, verified.stdout + verified.stderr
    _check(settings, name, env)


def _read(settings: ClusterSettings, name: str) -> int:
    return sum(1 for _ in read_topics(settings.bootstrap_servers, [f"{name}-rows"]))


def _check(settings: ClusterSettings, name: str, env: dict[str, str]) -> None:
    """Against rows made here, out of the address that the boundaries hold."""
    told = run_kcontrol("steps", name, "--json", env=env, timeout_s=PATIENCE_S)
    topics = {piece["topic"] for line in told.stdout.splitlines() for piece in json.loads(line)["inputs"]}
    [topic] = topics
    address = address_of(topic)
    assert isinstance(address, GeneratorAddress)
    ends = enumerate(address.ends(address.start_ms + 10**9))
    made = read_rows("load", topic, ROWS_ID, [(partition, 0, end) for partition, end in ends], ["draw"])
    expected = sorted(
        (row["value"], round(row["timestamp"].timestamp() * 1_000_000), row["draw"])
        for batch in made
        for row in batch.to_pylist()
    )
    assert len(expected) == ROWS
    messages = read_topics(settings.bootstrap_servers, [f"{name}-rows"])
    seen = [json.loads(message.value()) for message in messages]
    assert sorted((row["value"], row["us"], row["draw"]) for row in seen) == expected
