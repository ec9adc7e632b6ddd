"""A pipeline without state, on a real broker and Spark: its checkpoints cut its log, and nobody needs more than is left."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.model import Checkpoint, LoggedStep, StepBoundary
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.story import PATIENCE_S, Story
from tests.support.processes import ROOT, until

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.heavy]

FILE = str(ROOT / "tests" / "pipelines" / "stateless.py")
PAYMENTS = 200
"""In steps of ten at most."""
KEPT_STEPS = 4


def run(story: Story) -> None:
    ran = story.command("run", FILE, "--until-caught-up", "--master", "local[2]")
    assert ran.returncode == 0, ran.stderr


def begun(story: Story, settings: ClusterSettings) -> tuple[Checkpoint, list[LoggedStep]]:
    """What every process that starts reads of the log of steps: the newest checkpoint, and from where that says on."""

    async def read() -> tuple[Checkpoint | None, list[LoggedStep]]:
        log = KafkaStepsLog(settings, story.orders.name)
        try:
            newest = await log.begin_at_checkpoint()
            return newest, list(await log.read_to_end())
        finally:
            await log.close()

    newest, logged = asyncio.run(read())
    assert newest is not None
    return newest, logged


def check_copies(story: Story) -> None:
    """Each payment is in the output, once."""
    sent = Counter(value for (stem, _, _), value in story.orders.sent.items() if stem == "payments")
    assert Counter(message.value() for message in story.orders.messages("copies")) == sent


def check_cut(story: Story, settings: ClusterSettings) -> Checkpoint:
    """The log begins where the newest checkpoint says, and so does whoever reads it from there."""
    newest, logged = begun(story, settings)
    assert (newest.parts, newest.location) == ((), "")
    steps = [each.record for each in logged if isinstance(each.record, StepBoundary)]
    assert (logged[0].offset, steps[0].step) == (newest.boundary_offset, newest.step)
    # A step more may have been committed before the checkpoint was.
    assert newest.step - KEPT_STEPS < newest.first_step <= newest.step
    assert newest.first_step > 1
    return newest


def check_told(story: Story, newest: Checkpoint) -> None:
    status = story.command("status", story.orders.name)
    assert status.returncode == 0, status.stderr
    assert f"saved      no state; the newest checkpoint is of step {newest.step}\n" in status.stdout
    for command in (("replay", story.orders.name), ("verify", FILE)):
        refused = story.command(*command, "--from", "1", "--to", "2", "--master", "local[2]")
        assert refused.returncode != 0
        assert "step 1 is no longer in the log, which begins with step" in refused.stderr
        assert f"give --from {newest.first_step} or later" in refused.stderr


def test_its_log_is_cut_and_a_node_without_a_directory_goes_on(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    story = Story(settings, tmp_path, "stateless")
    story.orders.produce(PAYMENTS)
    run(story)
    first = check_cut(story, settings)
    check_copies(story)

    shutil.rmtree(tmp_path / "home" / "kcontrol" / "nodes")
    story.orders.produce(PAYMENTS)
    run(story)
    second = check_cut(story, settings)
    assert second.step > first.step
    check_copies(story)
    check_told(story, second)
    verified = story.command("verify", FILE, "--master", "local[2]")
    assert verified.returncode == 0, verified.stderr

    deleted: list[CompletedProcess[str]] = []

    def is_deleted() -> bool:
        deleted.append(story.command("delete", story.orders.name, "--yes"))
        return deleted[-1].returncode == 0

    until(is_deleted, "its processes are taken for dead", PATIENCE_S, lambda: deleted[-1].stderr)
    assert "checkpoints in" not in deleted[-1].stdout, "there are none to be left behind"
