"""Limits of pushes, as options of `kcontrol serve`: what can't be is refused before anything is started."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kcontrol.adapters.http.limits import HttpLimits
from kcontrol.cli import serve as command
from kcontrol.cli.main import run_command
from kcontrol.requests.push.limits import BodyLimits, MemoryLimits

NOWHERE = ["--bootstrap-servers", "nowhere:1", "--niceness", "0"]


class _StartedError(Exception):
    """With the limits of the server."""


@pytest.fixture(autouse=True)
def _nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    def listen(*asked: object) -> None:
        raise _StartedError(asked[-1])

    monkeypatch.setattr(command, "listen", listen)


def limits_of(*options: str) -> HttpLimits:
    done = CliRunner().invoke(command.serve, [*NOWHERE, *options])
    assert isinstance(done.exception, _StartedError), done.output
    [limits] = done.exception.args
    assert isinstance(limits, HttpLimits)
    return limits


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--remember-pushes", "601201"],
            "requests can be remembered for 601200 s at most, not 601201 s: their topic keeps them for 604800 s, and clocks "
            "may be 3600 s apart",
        ),
        (
            ["--max-push-bytes", "200", "--max-unpacked-bytes", "100"],
            "--max-unpacked-bytes is 100, less than the 200 of --max-push-bytes: bodies between the two could never be taken",
        ),
        (["--remember-pushes", "0"], "0 is not in the range x>=1"),
        (["--max-remembered-pushes", "0"], "0 is not in the range 1<=x<="),
        (["--max-push-rows", "0"], "0 is not in the range 1<=x<="),
        (["--max-row-bytes", "0"], "0 is not in the range 1<=x<="),
    ],
)
def test_what_can_not_be_is_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["serve", *NOWHERE, *options]) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_each_option_is_a_limit_of_the_server() -> None:
    found = limits_of(
        *("--max-push-bytes", "7000", "--max-queued-rows", "6000", "--max-push-rows", "5", "--max-row-bytes", "400"),
        *("--max-unpacked-bytes", "30000", "--remember-pushes", "20", "--max-remembered-pushes", "100"),
    )  # fmt: skip
    assert (found.max_push_bytes, found.max_queued_rows) == (7000, 6000)
    assert found.bodies == BodyLimits(rows=5, row_bytes=400, unpacked_bytes=30_000)
    assert found.remembered == MemoryLimits(remember_ms=20_000, requests=100)


def test_what_is_not_given_is_as_it_was() -> None:
    assert limits_of() == HttpLimits()


def test_larger_bodies_may_be_as_large_once_they_are_unpacked() -> None:
    assert limits_of("--max-push-bytes", str(100 << 20)).bodies.unpacked_bytes == 100 << 20
