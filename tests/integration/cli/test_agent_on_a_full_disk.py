"""`kcontrol agent` on a disk that is full."""

from __future__ import annotations

import json
from pathlib import Path

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.cli.conftest import own_cluster
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, until
from tests.support.small_disk import BALLAST, fill, small_disk


def test_it_says_so_and_joins_once_there_is_room(
    settings: ClusterSettings, unique: str, tmp_path: Path
) -> None:
    """Started again, as by its process manager."""
    own = own_cluster(settings, f"c{unique}", tmp_path)
    with small_disk(tmp_path / "small", 4_096) as disk:
        arguments = ("agent", "--name", "a", "--slots", "0", "--packages", "--work-dir", str(disk / "agent"))
        remembered = disk / "agent" / "incarnations.json"
        with KcontrolProcess(
            *(*arguments, "--bootstrap-servers", own.bootstrap_servers),
            log=tmp_path / "agent.log",
            env={"XDG_DATA_HOME": str(tmp_path / "home")},
            cwd=tmp_path,
        ) as agent:
            agent.says("agent a is member", HANG_S)
            assert agent.terminate(HANG_S) == 0
            [first] = json.loads(remembered.read_text())
            fill(disk)
            agent.start()
            agent.says("can't write down what it has to remember: [Errno 28] No space left on device", HANG_S)
            assert json.loads(remembered.read_text()) == [first]
            assert agent.process is not None
            assert agent.process.poll() is None
            (disk / BALLAST).unlink()
            until(lambda: agent.text().count("agent a is member") == 2, "it joins", HANG_S, agent.text)
            assert len(json.loads(remembered.read_text())) == 2
            assert agent.terminate(HANG_S) == 0
