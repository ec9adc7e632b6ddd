"""Two agents that do not know of each other start the same node: which of the two processes is the node does not
depend on which comes last."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.errors import ReplacedError
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.recovery import PATIENCE_S, stage


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_who_has_read_late_replaces_nobody(settings: ClusterSettings, tmp_path: Path) -> None:
    with stage(settings.bootstrap_servers, tmp_path, "placements") as running:
        running.coordinator()
        newer = running.node(number=0, placement="7/20")
        newer.says("joins", PATIENCE_S)
        running.orders.produce(100)
        running.until_step(1)

        older = running.node(number=1, placement="7/19")
        assert older.wait(PATIENCE_S) == ReplacedError.exit_code
        assert "was replaced" in older.text()
        running.orders.produce(100)
        running.until_done("the node of the newer placement goes on")
        assert newer.text().count(" joins ") == 1

        newest = running.node(number=2, placement="7/21")
        newest.says("joins", PATIENCE_S)
        assert newer.wait(PATIENCE_S) == ReplacedError.exit_code
        running.orders.produce(100)
        running.until_done("a newer placement replaces an older one")
        running.orders.check()
