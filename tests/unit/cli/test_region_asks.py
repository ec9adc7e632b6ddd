"""`kcontrol region drain`: in whose name it asks."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kcontrol.cli import region as command
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.records import (
    RegionAnswer,
    RegionCut,
    RegionOutcome,
    RegionRequest,
    RegionRequestKind,
)


@pytest.mark.parametrize(("options", "member"), [((), ""), (("--as", "totals"), "totals")])
def test_a_drain_is_asked_for_in_a_members_name_or_in_nobodys(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], member: str
) -> None:
    asked: list[RegionRequest] = []

    async def ask(_: object, request: RegionRequest, __: float) -> tuple[RegionAnswer, RegionLogView]:
        asked.append(request)
        answer = RegionAnswer(RegionRequestKind.DRAIN, request.request_id, RegionOutcome.DONE, 7)
        return answer, RegionLogView(cuts={7: RegionCut("orders", 7, 1_000, ())})

    monkeypatch.setattr(command, "ask_region", ask)
    done = CliRunner().invoke(command.drain, ["orders", "--bootstrap-servers", "h:1", *options])
    assert (done.exit_code, "cut 7" in done.output) == (0, True), done.output
    assert [(each.kind, each.member) for each in asked] == [("drain", member)]
