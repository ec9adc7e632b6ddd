"""An agent says that another one has made another value of the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kcontrol.core.cluster.entries import Configure
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import ClusterPolicy, Mark
from tests.unit.agent.session import Log, Session
from tests.unit.core.cluster.made import joins


def test_what_differs_is_told_once_and_not_with_each_beat(tmp_path: Path) -> None:
    log = Log([Configure(ClusterPolicy(digest_every=3, snapshot_every=3)), *joins("ab")])
    with Session(tmp_path, log) as one:

        async def play() -> None:
            await one.session._read()
            for seq in range(3):
                one.beats.sent.append(Beat("b", "b-1", seq, False, 3, Mark(3, "another")))
                await one.session._hear()

        asyncio.run(play())
        told = [what for what in one.told if "another value" in what]
        assert len(told) == 1
        assert "than b, as of offset 3: one of them is wrong" in told[0]
        assert not one.machine.ended
