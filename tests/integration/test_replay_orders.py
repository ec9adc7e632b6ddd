"""Steps 2 and 3 of a pipeline with state, run again through the command line: to files, to
other topics, to the terminal.

What is delivered must be what a reader finds in the real output topics for these steps, no more and no less.
Other code than the log was made with is found out.
"""

from __future__ import annotations

import json
import platform
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from confluent_kafka import Message

from examples.topic_reading import read_topics
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.support.orders import PARTITIONS, PIPELINE_FILE, Orders
from tests.support.processes import run_kcontrol

pytestmark = pytest.mark.timeout(600)

PATIENCE_S = 240.0
REPLAYED = (2, 3)
SPARSE = 1
"""Partitions of the topic that takes the copies: fewer than the output has."""


class Replays:
    """One pipeline that has run, and replays of it."""

    def __init__(self, settings: ClusterSettings, directory: Path) -> None:
        self.orders = Orders(settings.bootstrap_servers, f"replay-{secrets.token_hex(3)}")
        self.directory = directory
        self._env = {**self.orders.env, "XDG_DATA_HOME": str(directory / "home"), "ORDERS_MAX_RECORDS": "300"}

    def command(self, *arguments: str, **env: str) -> CompletedProcess[str]:
        return run_kcontrol(*arguments, env={**self._env, **env}, cwd=self.directory, timeout_s=PATIENCE_S)

    def run(self) -> None:
        result = self.command("run", str(PIPELINE_FILE), "--until-caught-up", "--master", "local[2]")
        assert result.returncode == 0, result.stderr

    def replay(self, *arguments: str, **env: str) -> CompletedProcess[str]:
        return self.command("replay", self.orders.name, "--master", "local[2]", *arguments, **env)

    def real(self, stem: str) -> list[Message]:
        """What the pipeline itself has written in the steps that are replayed."""
        return [message for message in self.orders.messages(stem) if step_of(message) in REPLAYED]


def step_of(message: Message) -> int:
    return int(dict(message.headers() or [])["step"])


def whole(messages: Iterator[Message] | list[Message], partitions: bool) -> Counter[Any]:
    """Everything that makes the messages what they are, `partitions` included or not; offsets differ, of
    course."""
    return Counter(
        (m.partition() if partitions else 0, m.key(), m.value(), tuple(m.headers() or ()), m.timestamp())
        for m in messages
    )


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_steps_run_again_give_what_the_topics_hold(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    replays = Replays(settings, tmp_path)
    replays.orders.produce(600)
    replays.run()
    assert len(replays.orders.steps()) >= 4
    for boundary in replays.orders.steps():
        [environment] = boundary["environments"]
        assert (environment["machine"], environment["python"]) == (
            platform.machine(),
            platform.python_version(),
        )
        assert all(environment[name] for name in ("kcontrol", "spark", "java", "pyarrow", "pandas", "numpy"))
    _to_files_and_topics(replays, topic_factory)
    _printed_by_other_code(replays)
    _refused(replays)


def _to_files_and_topics(replays: Replays, topic_factory: TopicFactory) -> None:
    orders = replays.orders
    totals, copies = (
        topic_factory("totals-again", PARTITIONS["totals"]),
        topic_factory("copies-again", SPARSE),
    )
    result = replays.replay(
        *("--from", str(REPLAYED[0]), "--to", str(REPLAYED[1]), "--output", "steps", "--json"),
        *("--topic", f"totals={totals}", "--topic", f"copies={copies}"),
    )
    assert result.returncode == 0, result.stderr
    assert [(each["step"], each["agrees"]) for each in objects(result.stdout)] == [
        (step, True) for step in REPLAYED
    ]

    assert whole(replays.real("totals"), partitions=True), "the steps have written something"
    assert whole(read_topics(orders.servers, [totals]), partitions=True) == whole(
        replays.real("totals"), partitions=True
    )
    assert whole(read_topics(orders.servers, [copies]), partitions=False) == whole(
        replays.real("copies"), partitions=False
    )

    files = {path.name: path for path in (replays.directory / "steps").iterdir()}
    assert len(files) == 3 * len(REPLAYED)
    boundaries = {boundary["step"]: boundary for boundary in orders.steps()}
    for step in REPLAYED:
        assert json.loads(files[f"step-{step:08}.json"].read_text()) == boundaries[step]
        for stem in ("totals", "copies"):
            found = objects(files[f"step-{step:08}.{stem}.jsonl"].read_text(encoding="utf-8"))
            assert {(each["step"], each["output"], tuple(each["headers"])) for each in found} == {
                (step, stem, ())
            }
            given = Counter((each["partition"], each["key"], each["value"]) for each in found)
            real = [message for message in replays.real(stem) if step_of(message) == step]
            assert given == Counter((m.partition(), _text(m.key()), _text(m.value())) for m in real)


def _printed_by_other_code(replays: Replays) -> None:
    result = replays.replay("--from", "2", "--to", "2", "--limit", "5", ORDERS_LIE="1")
    assert result.returncode == 7, result.stderr
    assert "step 2: output 'totals' partition" in result.stderr
    assert "'copies'" not in result.stderr
    assert "differs" not in result.stdout
    lines = [line.split() for line in result.stdout.splitlines() if line.lstrip().startswith("2  totals[")]
    assert len(lines) == 5
    assert "more records are left out" in result.stderr
    lied = [json.loads(line[-1]) for line in lines]
    real = [json.loads(message.value()) for message in replays.real("totals") if step_of(message) == 2]
    true = {each["customer"]: each for each in real}
    assert all(each["amount"] == true[each["customer"]]["amount"] + each["orders"] for each in lied), (
        "what this code gives"
    )


def _refused(replays: Replays) -> None:
    orders = replays.orders
    own = replays.replay("--topic", f"copies={orders.topic('totals')}")
    assert own.returncode == 2, own.stderr
    assert f"output 'totals' of pipeline {orders.name!r}" in own.stderr
    missing = replays.replay("--topic", "copies=nowhere")
    assert missing.returncode == 3, missing.stderr
    assert "nowhere" in missing.stderr
    filled = replays.replay("--output", "steps")
    assert filled.returncode == 2, filled.stderr
    assert "--overwrite" in filled.stderr
    late = replays.replay("--from", "3", "--to", "2")
    assert late.returncode == 2, late.stderr


def _text(data: bytes | str | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data
