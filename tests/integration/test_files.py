"""A pipeline that reads a directory in which files appear and grow, or a file behind a URL, and whose processes are killed, and
the server of the file with them: each line once, equal in a replay. A file that changes halts it until it is what it was."""

from __future__ import annotations

import json
import random
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from examples.topic_reading import read_topics
from kcontrol.core.model import PipelinePhase
from kcontrol.settings.cluster import ClusterSettings
from tests.support.dice import say_seed, seed_of_run
from tests.support.files_server import serving_files
from tests.support.following import until_status
from tests.support.processes import ROOT, KcontrolProcess, run_kcontrol
from tests.support.topics import create_topic

pytestmark = [pytest.mark.timeout(1_200), pytest.mark.heavy]

FILE = ROOT / "tests" / "pipelines" / "filed.py"
ROWS, FILES, KILLS = 12_000, 6, 5
PATIENCE_S = 300.0


class Story:
    """One pipeline, its directory and its processes."""

    def __init__(self, settings: ClusterSettings, directory: Path, url: str = "") -> None:
        """url: of the file, in place of a directory."""
        self.settings, self.name, self.logs = settings, f"filed-{secrets.token_hex(3)}", directory
        self.spool = directory / "spool"
        self.spool.mkdir()
        for topic in ("rows", "sums"):
            create_topic(settings, f"{self.name}-{topic}", 2)
        self.env = {
            "FILED_PIPELINE": self.name,
            "FILED_DIRECTORY": url or str(self.spool),
            "KCONTROL_BOOTSTRAP_SERVERS": settings.bootstrap_servers,
            "XDG_DATA_HOME": str(directory / "home"),
        }

    @contextmanager
    def running(self) -> Iterator[tuple[KcontrolProcess, KcontrolProcess]]:
        where = ["--work-dir", str(self.logs / "work"), "--master", "local[2]"]
        node = KcontrolProcess("node", str(FILE), *where, log=self.logs / "node.log", env=self.env)
        member = ["coordinator", "--instance", self.name]
        coordinator = KcontrolProcess(*member, log=self.logs / "coordinator.log", env=self.env)
        with coordinator, node:
            node.says("joins", PATIENCE_S)
            yield node, coordinator

    def until(self, condition: Any, what: str) -> Any:
        return until_status(self.settings, self.name, condition, what, PATIENCE_S)

    def rows(self) -> list[dict[str, int]]:
        messages = read_topics(self.settings.bootstrap_servers, [f"{self.name}-rows"])
        return sorted((json.loads(each.value()) for each in messages), key=lambda row: row["offset"])

    def run(self, *arguments: str) -> str:
        ran = run_kcontrol(*arguments, env=self.env, timeout_s=PATIENCE_S)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture
def story(settings: ClusterSettings, tmp_path: Path) -> Story:
    return Story(settings, tmp_path)


def _write(spool: Path, dice: random.Random, done: threading.Event) -> None:
    """Files that grow by pieces of lines, one after the other."""
    each = ROWS // FILES
    for number in range(FILES):
        text = "".join(f'{{"number": {at}}}\n' for at in range(number * each, (number + 1) * each))
        with (spool / f"{number:03}.ndjson").open("w") as file:
            at = 0
            while at < len(text):
                piece = dice.randint(1, 9_000)
                file.write(text[at : at + piece])
                file.flush()
                at += piece
                if done.wait(dice.uniform(0, 0.5)):
                    return


def _kill_and_go_on(
    story: Story,
    dice: random.Random,
    processes: tuple[KcontrolProcess, KcontrolProcess],
    before: Callable[[], None] = lambda: None,
) -> None:
    """before: each kill."""
    node, coordinator = processes
    story.until(lambda status: status.step >= 1, "a first step")
    for _ in range(KILLS):
        doomed = dice.choice([node, node, coordinator])
        step = story.until(lambda _: True, "a status").step
        before()
        doomed.kill()
        doomed.sweep()
        doomed.start()
        story.until(
            lambda status, seen=step: status.step >= seen + 1 or len(story.rows()) == ROWS, "steps go on"
        )


def _check_all(story: Story) -> None:
    """Each line is there once, the sums are those of all of them, and a replay gives the same."""
    assert [row["number"] for row in story.rows()] == list(range(ROWS))
    newest = {}
    for message in read_topics(story.settings.bootstrap_servers, [f"{story.name}-sums"]):
        row = json.loads(message.value())
        newest[row["rest"]] = max(row["sum"], newest.get(row["rest"], 0))
    assert newest == {rest: sum(range(rest, ROWS, 7)) for rest in range(7)}
    story.run("verify", str(FILE))


def test_every_line_behind_a_url_is_there_once_after_sigkills_while_its_server_fails(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    data = "".join(f'{{"number": {at}}}\n' for at in range(ROWS)).encode()
    with serving_files() as server:
        story = Story(settings, tmp_path, server.put("/rows.ndjson", data, '"v1"'))

        def fail() -> None:
            """It is away for some requests, and what it sends of others ends too soon."""
            server.faults["away"], server.faults["short"] = dice.randint(0, 3), dice.randint(0, 2)

        with story.running() as processes:
            _kill_and_go_on(story, dice, processes, fail)
            story.until(lambda _: len(story.rows()) >= ROWS, "all lines are committed")
        server.faults.clear()  # What replays them tries less often than a node does.
        _check_all(story)


def test_every_line_is_there_once_after_sigkills_while_files_grow(story: Story) -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice, done = random.Random(seed), threading.Event()
    writer = threading.Thread(target=_write, args=(story.spool, random.Random(seed + 1), done))
    writer.start()
    try:
        with story.running() as processes:
            _kill_and_go_on(story, dice, processes)
            writer.join(PATIENCE_S)
            story.until(
                lambda status: status.step > 1 and len(story.rows()) >= ROWS, "all lines are committed"
            )
    finally:
        done.set()
        writer.join()
    _check_all(story)


def test_a_file_that_changed_halts_until_it_is_what_it_was_also_for_a_node_that_was_not_there(
    story: Story,
) -> None:
    file, kept = story.spool / "1.ndjson", story.logs / "kept"
    file.write_text("".join(f'{{"number": {at}}}\n' for at in range(100)))
    shutil.copy2(file, kept)
    with story.running() as (node, _):
        story.until(lambda status: status.step >= 1 and len(story.rows()) == 100, "all lines are committed")
        file.write_text('{"number": 0}\n')
        said = story.until(lambda status: status.phase == PipelinePhase.HALTED, "it halts").reason
        assert str(file) in said
        assert "were read" in said
        shutil.copy2(kept, file)
        with file.open("a") as more:
            more.write('{"number": 100}\n')
        story.run("resume", story.name)
        story.until(lambda _: len(story.rows()) == 101, "it goes on behind what was read")
        node.kill()
        node.sweep()
        other = file.read_text().replace('"number": 100}', '"number": 200}')
        file.write_text(other + '{"number": 101}\n')
        node.start()
        said = story.until(lambda status: status.phase == PipelinePhase.HALTED, "it halts again").reason
        assert "are not those that were read" in said
    assert [row["number"] for row in story.rows()] == list(range(101))
