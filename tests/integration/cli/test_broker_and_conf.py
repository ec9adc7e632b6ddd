"""`kcontrol broker` and `kcontrol conf`."""

from __future__ import annotations

import json
from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.integration.cli.conftest import Command
from tests.support.processes import KcontrolProcess


def test_broker_prints_its_address_when_it_is_ready_and_ends_well(tmp_path: Path) -> None:
    with KcontrolProcess("broker", "--data-dir", str(tmp_path / "data"), "--json", log=tmp_path / "broker.log") as broker:
        broker.says('"bootstrap_servers"')
        facts = json.loads(broker.text().splitlines()[0])
        assert AdminClient({"bootstrap.servers": facts["bootstrap_servers"]}).list_topics(timeout=10).brokers
        assert facts["data_dir"] == str(tmp_path / "data")
        assert broker.terminate() == 0


def test_conf_prints_what_spark_submit_takes(command: Command) -> None:
    options = command("conf").stdout.splitlines()
    assert "--conf spark.task.maxFailures=1" in options
    settings = [json.loads(line) for line in command("conf", "--json").stdout.splitlines()]
    assert len(settings) == len(options)
    assert {"name", "value", "need", "why"} == set(settings[0])
