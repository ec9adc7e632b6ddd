"""Steps 2 and 3 of a pipeline with state, run again through the command line: to files, to
other topics, to the terminal.

What is delivered must be what a reader finds in the real output topics for these steps, no more and no less.
Other code than the log was made with is found out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

from confluent_kafka import Message

from examples.topic_reading import read_topics
from tests.conftest import TopicFactory
from tests.integration.story import Story
from tests.support.orders import PARTITIONS
from tests.support.processes import objects

REPLAYED = (2, 3)
SPARSE = 1
"""Partitions of the topic that takes the copies: fewer than the output has."""


def step_of(message: Message) -> int:
    return int(dict(message.headers() or [])["step"])


def whole(messages: Iterator[Message] | list[Message], partitions: bool) -> Counter[Any]:
    """Everything that makes the messages what they are, `partitions` included or not; offsets differ, of
    course."""
    return Counter(
        (m.partition() if partitions else 0, m.key(), m.value(), tuple(m.headers() or ()), m.timestamp())
        for m in messages
    )


def steps_are_replayed(story: Story, topic_factory: TopicFactory) -> None:
    """The steps of `REPLAYED` give what the topics hold; the story's pipeline has committed them."""
    _to_files_and_topics(story, topic_factory)
    _printed_by_other_code(story)
    _refused(story)


def _replay(story: Story, *arguments: str, **env: str) -> CompletedProcess[str]:
    return story.command("replay", story.orders.name, "--master", "local[2]", *arguments, **env)


def _real(story: Story, stem: str) -> list[Message]:
    """What the pipeline itself has written in the steps that are replayed."""
    return [message for message in story.orders.messages(stem) if step_of(message) in REPLAYED]


def _to_files_and_topics(story: Story, topic_factory: TopicFactory) -> None:
    orders = story.orders
    totals, copies = (
        topic_factory("totals-again", PARTITIONS["totals"]),
        topic_factory("copies-again", SPARSE),
    )
    result = _replay(
        story,
        *("--from", str(REPLAYED[0]), "--to", str(REPLAYED[1]), "--output", "steps", "--json"),
        *("--topic", f"totals={totals}", "--topic", f"copies={copies}"),
    )
    assert result.returncode == 0, result.stderr
    assert [(each["step"], each["agrees"]) for each in objects(result.stdout)] == [
        (step, True) for step in REPLAYED
    ]

    assert whole(_real(story, "totals"), partitions=True), "the steps have written something"
    assert whole(read_topics(orders.servers, [totals]), partitions=True) == whole(
        _real(story, "totals"), partitions=True
    )
    assert whole(read_topics(orders.servers, [copies]), partitions=False) == whole(
        _real(story, "copies"), partitions=False
    )

    files = {path.name: path for path in (story.directory / "steps").iterdir()}
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
            real = [message for message in _real(story, stem) if step_of(message) == step]
            assert given == Counter((m.partition(), _text(m.key()), _text(m.value())) for m in real)


def _printed_by_other_code(story: Story) -> None:
    result = _replay(story, "--from", "2", "--to", "2", "--limit", "5", ORDERS_LIE="1")
    assert result.returncode == 7, result.stderr
    assert "step 2: output 'totals' partition" in result.stderr
    assert "'copies'" not in result.stderr
    assert "differs" not in result.stdout
    lines = [line.split() for line in result.stdout.splitlines() if line.lstrip().startswith("2  totals[")]
    assert len(lines) == 5
    assert "more records are left out" in result.stderr
    lied = [json.loads(line[-1]) for line in lines]
    real = [json.loads(message.value()) for message in _real(story, "totals") if step_of(message) == 2]
    true = {each["customer"]: each for each in real}
    assert all(each["amount"] == true[each["customer"]]["amount"] + each["orders"] for each in lied), (
        "what this code gives"
    )


def _refused(story: Story) -> None:
    orders = story.orders
    own = _replay(story, "--topic", f"copies={orders.topic('totals')}")
    assert own.returncode == 2, own.stderr
    assert f"output 'totals' of pipeline {orders.name!r}" in own.stderr
    missing = _replay(story, "--topic", "copies=nowhere")
    assert missing.returncode == 22, missing.stderr
    assert "nowhere" in missing.stderr
    filled = _replay(story, "--output", "steps")
    assert filled.returncode == 2, filled.stderr
    assert "--overwrite" in filled.stderr
    late = _replay(story, "--from", "3", "--to", "2")
    assert late.returncode == 2, late.stderr


def _text(data: bytes | str | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data
