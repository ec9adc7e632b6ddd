"""What commands about placed jobs take: tags, and a job that is tried again."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kcontrol.cli import cluster as commands
from kcontrol.cli.cluster import cluster, place
from kcontrol.cli.submit import submit
from kcontrol.views.agents_facts import LoggedEntry

NOWHERE = ("--bootstrap-servers", "nowhere:1")
MADE = LoggedEntry(7, 9, "SubmitJob", "", ("what changed",))


@pytest.mark.parametrize(
    ("said", "meant"), [((), None), (("--tags", ""), ()), (("--tags", "gpu,ssd"), ("gpu", "ssd"))]
)
def test_tags_that_are_not_said_are_not_those_that_are_none(
    monkeypatch: pytest.MonkeyPatch, said: tuple[str, ...], meant: tuple[str, ...] | None
) -> None:
    asked: list[object] = []

    async def placed(_view: object, *what: object) -> LoggedEntry:
        asked.append(what[3])
        return MADE

    monkeypatch.setattr(commands, "place_job", placed)
    done = CliRunner().invoke(place, ["p.py", "--job", "p", *said, *NOWHERE], catch_exceptions=False)
    assert done.exit_code == 0
    assert asked == [meant]


def test_tags_are_for_agents_and_have_names() -> None:
    said = CliRunner().invoke(submit, ["p.py", "--tags", "gpu", "--no-place", *NOWHERE])
    assert "--tags are for agents" in str(said.exception)
    said = CliRunner().invoke(submit, ["p.py", "--tags", "a b", *NOWHERE])
    assert "tag" in str(said.exception or said.output)
    assert said.exit_code != 0


def test_a_job_is_tried_again_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def tried(_view: object, job: str) -> LoggedEntry:
        asked.append(job)
        return MADE

    monkeypatch.setattr(commands, "retry_job", tried)
    done = CliRunner().invoke(cluster, ["retry", "flights", *NOWHERE], catch_exceptions=False)
    assert "SubmitJob: what changed" in done.output
    assert asked == ["flights"]


@pytest.mark.parametrize(
    ("said", "why"), [(("retry",), "kcontrol cluster retry JOB"), (("jobs", "flights"), "JOB is for `retry`")]
)
def test_a_job_is_named_for_that_and_for_nothing_else(said: tuple[str, ...], why: str) -> None:
    done = CliRunner().invoke(cluster, [*said, *NOWHERE])
    assert (done.exit_code, why in done.output) == (2, True)
