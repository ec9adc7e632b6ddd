"""A change of the layout that comes into the log in the very moment in which something else is asked for: whoever asked for it
hears that it is made, on the logs of a real broker."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from subprocess import CompletedProcess

from kcontrol.core.model import Assignment, LayoutPhase, LayoutRequest, LayoutStatus
from kcontrol.core.step.layout_change import changed
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.kafka.test_lost_nodes import SPEC, Lost, played, program
from tests.support.patience import HANG_S

TOO_LATE = "change 1 of the layout was asked for, and the next one would be 2: ask again"


def record_of(request: LayoutRequest) -> Assignment:
    target = changed(SPEC, request.nodes)
    tables = target.owners, target.inputs, target.outputs, len(target.moves)
    return Assignment("p", 1, 1, request.nodes, *tables, 5, request.request_id, 1, live=True)


async def asked(lost: Lost, nodes: int) -> LayoutRequest:
    """The newest request, once it is for so many."""
    async with asyncio.timeout(HANG_S):
        while True:
            found = await lost.asked()
            if found is not None and found.nodes == nodes:
                return found
            await asyncio.sleep(0.1)


def too_late(request: LayoutRequest) -> LayoutStatus:
    """What the coordinator says of what came behind the change."""
    return LayoutStatus(request.request_id, LayoutPhase.GIVEN_UP, request.nodes, 0, 0, 0, -1, 0, TOO_LATE)


def test_what_is_withdrawn_too_late_is_made(settings: ClusterSettings, tmp_path: Path) -> None:
    """Of two commands at once, the one whose change is recorded: it must not be taken for one that came to nothing."""

    async def play(lost: Lost) -> CompletedProcess[str]:
        asking = asyncio.create_task(lost.layout("--nodes", "2", "--json"))
        request = await asked(lost, 2)
        withdrawal = LayoutRequest("p", "w", 1, 0, 0)
        await lost.commit(record_of(request))
        await lost.say(withdrawal)
        lost.told = too_late(withdrawal)
        return await asking

    done, _ = played(settings, tmp_path, ("a", "b", "c"), play)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["changed"], said["nodes"], said["after_step"]) == (True, 2, 1)


def test_a_number_that_ends_when_the_change_was_made_takes_nothing_back(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    goes_on = tmp_path / "goes-on"
    waits = f"import pathlib, time, sys\nwhile not pathlib.Path({str(goes_on)!r}).exists(): time.sleep(0.1)\nsys.exit(1)"

    async def play(lost: Lost) -> CompletedProcess[str]:
        asking = asyncio.create_task(lost.without(2, "--json", *program(waits)))
        await lost.commit(record_of(await asked(lost, 2)))
        goes_on.touch()
        lost.told = too_late(await asked(lost, 0))
        return await asking

    done, _ = played(settings, tmp_path, ("a", "b", "c"), play)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changed"] is True
