"""What `kcontrol insert` says of rows that are written and not yet in steps."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from kcontrol.errors import ConfigurationError, RetriableError
from kcontrol.requests.push.log import Pushed
from kcontrol.wire.pushed import PushedEnd, PushedRequest

command = import_module("kcontrol.cli.insert")


def test_rows_that_are_written_are_told_with_their_id_before_they_are_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The id was made up: whoever does not know it can only insert them a second time."""
    asked: list[str] = []

    async def insert(*given: object) -> Pushed:
        asked.append(str(given[-1]))
        ends = (PushedEnd(0, 1),)
        return Pushed(
            PushedRequest("p", "in", asked[0], "t", "T", "c", 2, 0, ends),
            replayed=False,
        )

    async def committed_steps(*_: object) -> list[int | None]:
        raise RetriableError("not in a committed step within 1 s")

    monkeypatch.setattr(command, "_insert", insert)
    monkeypatch.setattr(command, "committed_steps", committed_steps)
    file = tmp_path / "rows.ndjson"
    file.write_text('{"a": 1}\n{"a": 2}\n')
    done = CliRunner().invoke(command.insert, ["p", "in", str(file), "--wait", "--bootstrap-servers", "h:1"])
    assert isinstance(done.exception, RetriableError)
    assert f"request {asked[0]}: 2 rows are written" in done.stderr


def test_an_empty_id_is_not_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is that of a script whose variable is not set: each of its tries would insert the rows once more."""
    asked: list[object] = []

    async def insert(*given: object) -> Pushed:
        asked.append(given)
        raise RetriableError("is never asked")

    monkeypatch.setattr(command, "_insert", insert)
    file = tmp_path / "rows.ndjson"
    file.write_text('{"a": 1}\n')
    done = CliRunner().invoke(
        command.insert, ["p", "in", str(file), "--id", "", "--bootstrap-servers", "h:1"]
    )
    assert isinstance(done.exception, ConfigurationError)
    assert "must be 1 to 255 printable ASCII characters" in str(done.exception)
    assert not asked


@pytest.mark.parametrize(
    ("name", "why"), [("gone.csv", "No such file or directory"), (".", "Is a directory")]
)
def test_a_file_that_can_not_be_read_is_named_before_anybody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str
) -> None:
    asked: list[object] = []

    async def insert(*given: object) -> Pushed:
        asked.append(given)
        raise RetriableError("is never asked")

    monkeypatch.setattr(command, "_insert", insert)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(
        command.insert, ["p", "in", name, "--format", "csv", "--bootstrap-servers", "h:1"]
    )
    assert isinstance(done.exception, ConfigurationError)
    assert str(done.exception) == f"{name}: can't be read: {why}"
    assert not asked
