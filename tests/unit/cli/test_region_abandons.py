"""`kcontrol region rollback --abandon`: which rollback it means."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kcontrol.cli import region_rollback as command
from kcontrol.core.regions.records import RegionAnswer, RegionOutcome, RegionRequestKind

BASE = ["orders", "--bootstrap-servers", "h:1"]


@pytest.mark.parametrize(("options", "to_cut"), [((), None), (("--to-cut", "17"), 17)])
def test_it_means_the_one_that_it_finds_or_the_one_to_that_cut(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], to_cut: int | None
) -> None:
    asked: list[tuple[str, int | None, str]] = []

    async def abandon(_: object, region: str, cut: int | None, __: str, why: str, ___: float) -> RegionAnswer:
        asked.append((region, cut, why))
        return RegionAnswer(
            RegionRequestKind.ROLLBACK, "q", RegionOutcome.DONE, 17, "back at cut 17: a; not: b"
        )

    monkeypatch.setattr(command, "abandon_rollback", abandon)
    done = CliRunner().invoke(command.rollback, [*BASE, "--abandon", *options, "--why", "b is gone"])
    assert (done.exit_code, "back at cut 17: a; not: b" in done.output) == (0, True), done.output
    assert asked == [("orders", to_cut, "b is gone")]


@pytest.mark.parametrize("options", [[], ["--abandon", "--plan"], ["--abandon", "--leave-behind", "x"]])
def test_what_makes_no_sense_is_refused(options: list[str]) -> None:
    refused = CliRunner().invoke(command.rollback, [*BASE, *options])
    assert (refused.exit_code, "--abandon" in refused.output) == (2, True), refused.output
