"""A reset of a pipeline whose input is a file: refused, before anything is written, where it could not go on afterwards."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

from kcontrol import FileInput
from kcontrol.errors import InputGoneError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.files_server import serving_files
from tests.support.processes import run_kcontrol

ROWS = {"delays": {0: [b"one", b"two"]}}


def made(settings: ClusterSettings, new_topic: TopicFactory, directory: Path, path: str) -> StepsMaker:
    """Three steps of a pipeline that reads it."""
    log = StepsMaker(settings, new_topic, FileInput("lines", path=path))
    for step in (1, 2, 3):
        log.step(step, ROWS)
    (directory / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{log.settings.prefix}"\n'
    )
    return log


def command(directory: Path, *arguments: str) -> CompletedProcess[str]:
    return run_kcontrol(*arguments, cwd=directory)


def test_a_url_that_is_another_version_is_refused_and_nothing_written(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    with serving_files() as server:
        url = server.put("/lines.txt", b"one\ntwo\n", '"first"')
        made(settings, topic_factory, tmp_path, url)
        ask = ("reset", PIPELINE, "--to-step", "1")
        planned = command(tmp_path, *ask, "--plan")
        assert planned.returncode == 0, planned.stderr
        before = command(tmp_path, "steps", PIPELINE, "--json").stdout
        server.put("/lines.txt", b"one\nsix\n", '"second"')
        for options in (["--plan"], []):
            refused = command(tmp_path, *ask, *options)
            assert refused.returncode == InputGoneError.exit_code, refused.stdout
            assert f"{url} is another version" in refused.stderr
            assert "Nothing was reset" in refused.stderr
        assert command(tmp_path, "steps", PIPELINE, "--json").stdout == before


def test_files_that_are_not_on_this_host_are_told_in_the_plan(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\ntwo\n")
    made(settings, topic_factory, tmp_path, str(path))
    path.unlink()
    planned = command(tmp_path, "reset", PIPELINE, "--to-step", "1", "--plan")
    assert planned.returncode == 0, planned.stderr
    assert f"not looked at: input 'lines': {path} is not on this host" in planned.stdout
