"""`kcontrol coordinator` that stands still at a moment, until a file is there: what happens meanwhile happens at
exactly that moment of its life, however busy the machine is.

As a process: python -m tests.support.held_coordinator MOMENT FILE [OPTION...]. It says `held: MOMENT` when it is there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from kcontrol.adapters.kafka.admin.groups import Membership
from kcontrol.apps import coordinator_worker
from kcontrol.cli import coordinator
from kcontrol.cli.main import main
from kcontrol.settings.cluster import ClusterSettings

JOINING = "it may join its group, and has not asked to yet"
ASSIGNED = "it has been told its partitions, and asks for no records yet"
ALONE = "the group has it no longer as far as it can see, for as long as the file is there"
MOMENTS = (JOINING, ASSIGNED, ALONE)

LOOK_EVERY_S, MISSED_LOOKS = 0.1, 5
LONGEST_S = 300.0


def _say(text: str) -> None:
    click.echo(f"held: {text}")


def _hold(moment: str, file: Path) -> None:
    """In the thread of the event loop: it does nothing else either."""
    _say(moment)
    deadline = time.monotonic() + LONGEST_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"held for {LONGEST_S:g} s")
        time.sleep(0.01)


def hold_before_it_joins(file: Path) -> None:
    check: Any = coordinator_worker.check_may_join
    held: list[str] = []

    async def checked(settings: ClusterSettings) -> None:
        await check(settings)
        if not held:
            held.append(JOINING)
            _hold(JOINING, file)

    setattr(coordinator_worker, "check_may_join", checked)  # noqa: B010 - mypy knows it as a function of that module


def hold_when_it_is_told_its_partitions(file: Path) -> None:
    _around_run(lambda: None if file.exists() else _hold(ASSIGNED, file))


def look_often_and_find_nobody(file: Path) -> None:
    """Before a life of it has been in the group once, it is taken for a member."""
    is_there: Any = Membership.is_there
    seen: list[Membership] = []

    async def looked(self: Membership) -> bool:
        there: bool = await is_there(self)
        if there and self not in seen:
            _say("it is in the group")
            seen.append(self)
        return not os.path.exists(file) and (there or self not in seen)  # noqa: ASYNC240, PTH110 - a test's process

    setattr(Membership, "is_there", looked)  # noqa: B010
    _around_run(
        lambda: _say("it is told its partitions"), look_every_s=LOOK_EVERY_S, missed_looks=MISSED_LOOKS
    )


def _around_run(act: Callable[[], None], **other: Any) -> None:
    """act: done whenever it has been told its partitions. other: options than its own."""

    def run(settings: Any, partitions: int, options: Any, ready: Callable[[], None]) -> None:
        def both() -> None:
            ready()
            act()

        coordinator_worker.run_coordinator(settings, partitions, replace(options, **other), both)

    setattr(coordinator, "run_coordinator", run)  # noqa: B010


if __name__ == "__main__":
    holds = (hold_before_it_joins, hold_when_it_is_told_its_partitions, look_often_and_find_nobody)
    holds[MOMENTS.index(sys.argv[1])](Path(sys.argv[2]))
    main(["coordinator", *sys.argv[3:]])
