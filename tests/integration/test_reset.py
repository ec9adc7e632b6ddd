"""A bad deployment is taken back, by the commands of docs/howto/reset.md: the pipeline goes on from the last step that was
right, as if it had never been."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

import kcontrol
from kcontrol.cli.inputs import asked_by
from kcontrol.errors import StepsVoidedError
from kcontrol.settings.cluster import ClusterSettings
from tests.docs.blocks import blocks_of
from tests.docs.expected import missing
from tests.docs.reading import commands
from tests.integration.story import Story
from tests.support.orders import CUSTOMERS, PIPELINE_FILE
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, objects

pytestmark = pytest.mark.timeout(3_600)

_COMMANDS, LINE = (
    block.text
    for block in blocks_of("docs/howto/reset.md")
    if block.argument == "tests/integration/test_reset.py"
)
STEPS, STOP, PLAN, RESET, RUN = commands(_COMMANDS)
RIGHT, WRONG = "", "1"
"""What the deployment makes of amounts: see `LIE` in the pipeline's file."""


KILLED_S = 900.0
"""For a step after SIGKILLs: a node that does not come back in time is told to end first, and may be, more than once."""


class Deployed:
    """A pipeline that is run and stopped with one code after the other."""

    def __init__(self, settings: ClusterSettings, directory: Path, *, plan_once: bool) -> None:
        self.story = Story(settings, directory, "reset")
        self.orders = self.story.orders
        self.servers = settings.bootstrap_servers
        self.story.env |= {
            "ORDERS_CHECKPOINTS": str(directory / "checkpoints"),
            "ORDERS_KEEP": "10",
            "ORDERS_MAX_RECORDS": "40",
            "ORDERS_PLAN_EACH_STEP": "" if plan_once else "1",
        }
        self.runs = 0

    @property
    def work(self) -> Path:
        return self.story.directory / "home" / "kcontrol" / "nodes"

    def run(self, lie: str, records: int, kills: int = 0) -> int:
        """Some records more, until all that there are is committed; its last step. kills: SIGKILLs to all of it on the way."""
        self.orders.produce(records)
        self.runs += 1
        log = self.story.directory / f"run-{self.runs}.log"
        env = {**self.story.env, "ORDERS_LIE": lie}
        command = (*self.of_page(RUN), "--master", "local[2]")
        with KcontrolProcess(*command, env=env, cwd=self.story.directory, log=log) as process:
            for _ in range(kills):
                before = self._committed()
                self.orders.produce(records)
                self._until_after(before)
                process.restart()
            self.orders.until_done("all is committed", KILLED_S)
            stopped = self.story.command(*self.of_page(STOP))
            assert stopped.returncode == 0, stopped.stderr
        return self._committed()

    def _until_after(self, step: int) -> None:
        self.orders.until_status(lambda status: status.step > step, "a step more, then a kill", KILLED_S)

    def _committed(self) -> int:
        steps = self.orders.steps()
        return int(steps[-1]["step"]) if steps else 0

    def of_page(self, command: list[str], to_step: int = 0) -> list[str]:
        """A command of the page, as it is of this pipeline."""
        here = {"shop": self.orders.name, "shop.py": str(PIPELINE_FILE), "42": str(to_step)}
        return [here.get(word, word) for word in command[1:]]

    def reset(self, to_step: int, command: list[str] = RESET) -> CompletedProcess[str]:
        return self.story.command(*self.of_page(command, to_step), "--json")

    def went_back(self, to_step: int, command: list[str] = RESET) -> dict[str, Any]:
        done = self.reset(to_step, command)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def consumer(self, after_step: int = 0) -> kcontrol.StepConsumer:
        return kcontrol.StepConsumer(
            self.orders.name,
            bootstrap_servers=self.servers,
            after_step=after_step,
            timeout=HANG_S,
            verify_digests=True,
        )

    def check(self) -> list[int]:
        """All that was produced is in exactly one step that is not void, and the newest totals are what they would be had
        there been no others. The steps that a consumer is given."""
        totals: dict[str, dict[str, Any]] = {}
        read: Counter[str] = Counter()
        given: list[int] = []
        last = self._committed()
        with self.consumer() as steps:
            while given[-1:] != [last]:
                step = next(steps)
                given.append(step.number)
                assert step.boundary.reset is None
                for piece in step.boundary.inputs:
                    read[piece.input] += piece.records
                for record in step.records["totals"]:
                    assert record.key is not None
                    totals[record.key.decode()] = json.loads(record.value or b"null")
        assert read == self.orders.produced
        expected = {f"c{customer}": [0, 0] for customer in range(CUSTOMERS)}
        for number in range(self.orders.produced["orders"]):
            of = expected[f"c{number % CUSTOMERS}"]
            of[0], of[1] = of[0] + 1, of[1] + number * 13 % 101
        assert {key: [value["orders"], value["amount"]] for key, value in totals.items()} == expected
        return given

    def verify(self) -> list[int]:
        done = self.story.command("verify", str(PIPELINE_FILE), "--master", "local[2]", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        verdicts = objects(done.stdout)
        assert all(each["agrees"] for each in verdicts)
        return [each["step"] for each in verdicts]


@pytest.fixture(params=[True, False], ids=["planned once", "planned each step"])
def deployed(settings: ClusterSettings, tmp_path: Path, request: pytest.FixtureRequest) -> Deployed:
    return Deployed(settings, tmp_path, plan_once=request.param)


@pytest.mark.parametrize(
    "plan_once",
    [True, pytest.param(False, marks=pytest.mark.heavy)],
    ids=["planned once", "planned each step"],
)
def test_a_bad_deployment_is_taken_back(settings: ClusterSettings, tmp_path: Path, plan_once: bool) -> None:
    deployed = Deployed(settings, tmp_path, plan_once=plan_once)
    good = deployed.run(RIGHT, 60)
    bad = deployed.run(WRONG, 60)
    assert bad > good
    with deployed.consumer(after_step=good) as reader:
        assert next(reader).number == good + 1

        refused = deployed.reset(bad + 1)
        assert (refused.returncode, "has no step" in refused.stderr) == (2, True), refused.stderr
        planned = deployed.went_back(good, PLAN)
        assert (planned["reset"], planned["void_from"], planned["void_to"]) == (False, good + 1, bad)
        assert len(deployed.orders.steps()) == bad
        said = deployed.went_back(good)
        assert (said["reset"], said["step"], said["rerun_steps"]) == (True, bad + 1, 0)
        assert said["void_records"][deployed.orders.topic("totals")] > 0
        printed = deployed.story.command(*deployed.of_page(STEPS)).stdout
        assert missing(LINE.replace("ana@host-3", asked_by()), printed) is None, printed
        again = deployed.reset(good)
        assert (again.returncode, "already" in again.stderr) == (2, True), again.stderr

        last = deployed.run(RIGHT, 60)
        assert last > bad + 1
        with pytest.raises(StepsVoidedError, match="wrong rate since 10:12") as void:
            list(reader)
        assert (void.value.first, void.value.last, void.value.next_step) == (good + 1, bad, bad + 2)
        assert next(reader).number == bad + 2
    expected = [*range(1, good + 1), *range(bad + 2, last + 1)]
    assert deployed.check() == expected
    with deployed.consumer(after_step=bad) as late, pytest.raises(StepsVoidedError):
        next(late)


@pytest.mark.heavy
def test_back_and_forth_with_kills_and_a_lost_disk(deployed: Deployed) -> None:
    """To a step without a checkpoint of its own, from which steps are run again; then again, over the first reset."""
    good = deployed.run(RIGHT, 100)
    middle = deployed.run(RIGHT, 100, kills=1)
    bad = deployed.run(WRONG, 60, kills=1)
    between = (good + middle) // 2
    said = deployed.went_back(between)
    assert (said["rerun_after"], said["rerun_steps"]) == (good, between - good)
    if said["rerun_steps"]:
        shutil.rmtree(deployed.work, ignore_errors=True)
    first = deployed.run(RIGHT, 40, kills=1)
    given = deployed.check()
    assert given == [*range(1, between + 1), *range(bad + 2, first + 1)]
    second = deployed.run(WRONG, 40)
    refused = deployed.reset(between + 1)
    assert (refused.returncode, "is void since step" in refused.stderr) == (2, True), refused.stderr
    deployed.went_back(good)
    last = deployed.run(RIGHT, 40, kills=1)
    expected = [*range(1, good + 1), *range(second + 2, last + 1)]
    assert deployed.check() == expected
    assert deployed.verify() == expected
