"""Single inputs through the command line: paused over a restart of everything, widened, expired and skipped.

One story on one broker, because each start of Spark takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.input_facts import WaitingInput
from kcontrol.views.pipeline_facts import PipelineStatus
from tests.integration.story import PATIENCE_S, Story
from tests.support.orders import PIPELINE_FILE
from tests.support.processes import KcontrolProcess, until

pytestmark = [pytest.mark.timeout(1_500), pytest.mark.heavy]


class InputsStory(Story):
    """Commands about the pipeline's inputs, too."""

    def asked(self, name: str, *arguments: str) -> dict[str, Any]:
        """What a command about the pipeline answers with --json."""
        result = self.command(name, self.orders.name, *arguments, "--json", "--timeout", "120")
        assert result.returncode == 0, result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    @contextmanager
    def running(self, number: int) -> Iterator[KcontrolProcess]:
        log = self.directory / f"run-{number}.log"
        with KcontrolProcess(
            "run", str(PIPELINE_FILE), "--master", "local[2]", log=log, env=self.env
        ) as process:
            process.says("running at step", PATIENCE_S)
            yield process

    def until_read(self, **records: int) -> None:
        """So many records of these inputs are committed."""
        self.orders.until_read(records, f"{records} are committed", PATIENCE_S)

    def until_done(self) -> None:
        self.until_read(**self.orders.produced)

    def first_payment_left(self, partition: int) -> int:
        """As the node has last said."""
        records = [
            json.loads(line) for line in self.command("log", self.orders.name, "--json").stdout.splitlines()
        ]
        received = [each for each in records if each["record"] == "Received" and each["input"] == "payments"]
        return next(each["earliest"] for each in received[-1]["partitions"] if each["partition"] == partition)

    def until_phase(self, phase: str) -> None:
        self.until(lambda status: status.phase == phase, phase)


def _payments(status: PipelineStatus) -> WaitingInput:
    """What the status says of that input."""
    return next(each for each in status.inputs if each.input == "payments")


@pytest.fixture
def story(settings: ClusterSettings, tmp_path: Path) -> InputsStory:
    return InputsStory(settings, tmp_path, "inputs")


def test_an_input_is_paused_widened_and_made_to_go_on_after_it_has_expired(story: InputsStory) -> None:
    _paused(story)
    _says_what_is_missing(story)
    with story.running(2) as process:
        _resumed_and_widened(story)
        _expired_and_skipped(story)
        story.asked("stop")
        assert process.process is not None
        assert process.process.poll() is None
    steps = story.orders.check()
    assert {piece["partition"] for piece in steps[-1]["inputs"] if piece["input"] == "payments"} == {0, 1, 2}


def _paused(story: InputsStory) -> None:
    orders = story.orders
    orders.produce(40)
    with story.running(1):
        story.until_done()
        paused = story.asked("pause-input", "payments")
        assert (paused["input"], paused["paused"]) == ("payments", True)
        assert story.asked("pause-input", "payments")["paused"], "once more is no error"
        orders.produce(20)
        story.until_read(orders=60, payments=40)
        later = [step for step in orders.steps() if step["step"] >= paused["from_step"]]
        assert later
        assert all(step["paused_inputs"] == ["payments"] for step in later)
        status = orders.until_status(
            lambda status: _payments(status).waiting == 20, "its node has seen what waits", PATIENCE_S
        )
        assert (_payments(status).paused, _payments(status).noted) == (True, True)
        unknown = story.command("pause-input", orders.name, "refunds")
        assert unknown.returncode == 10
        assert "has no input 'refunds'; it has orders, payments" in unknown.stderr


def _says_what_is_missing(story: InputsStory) -> None:
    """The pause outlives all processes, and nobody waits for ever."""
    result = story.command("run", str(PIPELINE_FILE), "--until-caught-up", "--master", "local[2]")
    assert result.returncode == 1, result.stdout + result.stderr
    assert "paused inputs, of which no step reads anything: payments" in result.stdout
    assert "20 offsets of payments wait; to read them: kcontrol resume-input" in result.stderr


def _resumed_and_widened(story: InputsStory) -> None:
    orders = story.orders
    orders.widen("payments", 3)
    orders.pay(7, partition=2)
    assert story.asked("resume-input", "payments")["paused"] is False
    story.until_done()
    verified = story.command("verify", orders.name, "--master", "local[2]", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def _expired_and_skipped(story: InputsStory) -> None:
    orders, name = story.orders, story.orders.name
    where = ("skip", name, "--input", "payments", "--partition", "1", "--timeout", "120")
    running = story.command(*where, "--to-offset", "31")
    assert running.returncode == 1
    assert "it is running; first kcontrol pause" in running.stderr
    story.asked("pause")
    orders.pay(4, partition=1)
    orders.expire("payments", partition=1)
    orders.pay(3, partition=1)
    until(lambda: story.first_payment_left(1) == 34, "its node has seen that they are gone", PATIENCE_S)
    story.asked("resume")
    story.until_phase("halted")
    reason = orders.status()["reason"]
    assert "partition 1) has expired: the next step needs offset 30, the first one left is 34" in reason
    for offset, text in (("29", "29 lies before it"), ("38", "38 lies beyond it"), ("30", "nothing to skip")):
        refused = story.command(*where, "--to-offset", offset)
        assert refused.returncode == 2, refused.stderr
        assert text in refused.stderr
    skipped = story.asked(
        "skip", "--input", "payments", "--partition", "1", "--to-offset", "34", "--by", "tester"
    )
    assert (skipped["from"], skipped["to"], skipped["by"], skipped["committed"]) == (30, 34, "tester", False)
    story.asked("resume")
    story.until_done()
    (recorded,) = [(step["step"], skip) for step in orders.steps() for skip in step["skipped_ranges"]]
    assert (recorded[0], recorded[1]["by"], recorded[1]["from"], recorded[1]["to"]) == (
        skipped["step"],
        "tester",
        30,
        34,
    )
