"""`kcontrol broker` and `kcontrol conf`."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.integration.cli.conftest import Command
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, until

START_TIMEOUT_S = HANG_S


def test_broker_prints_its_address_when_it_is_ready_and_ends_well(tmp_path: Path) -> None:
    with KcontrolProcess(
        "broker", "--data-dir", str(tmp_path / "data"), "--json", log=tmp_path / "broker.log"
    ) as broker:
        broker.says('"bootstrap_servers"')
        facts = json.loads(broker.text().splitlines()[0])
        assert (
            AdminClient({"bootstrap.servers": facts["bootstrap_servers"]})
            .list_topics(timeout=START_TIMEOUT_S)
            .brokers
        )
        assert facts["data_dir"] == str(tmp_path / "data")
        assert broker.terminate() == 0


@pytest.mark.heavy
def test_three_brokers_are_one_cluster_and_one_that_is_killed_is_started_again(tmp_path: Path) -> None:
    arguments = ("broker", "--brokers", "3", "--data-dir", str(tmp_path / "data"), "--json")
    with KcontrolProcess(*arguments, log=tmp_path / "broker.log") as command:
        command.says('"bootstrap_servers"', timeout_s=START_TIMEOUT_S)
        facts = json.loads(command.text().splitlines()[0])
        admin = AdminClient({"bootstrap.servers": facts["bootstrap_servers"], "log_level": 0})
        assert set(admin.list_topics(timeout=START_TIMEOUT_S).brokers) == {1, 2, 3}
        os.kill(facts["brokers"]["2"]["pid"], signal.SIGKILL)
        command.says("Broker 2 has ended")
        restarted = AdminClient(
            {"bootstrap.servers": facts["brokers"]["2"]["bootstrap_servers"], "log_level": 0}
        )
        until(lambda: _answers(restarted), "broker 2 answers again", START_TIMEOUT_S)
        assert command.terminate() == 0


def _answers(admin: AdminClient) -> bool:
    try:
        return 2 in admin.list_topics(timeout=1).brokers
    except KafkaException:
        return False


def test_conf_prints_what_spark_submit_takes(command: Command) -> None:
    options = command("conf").stdout.splitlines()
    assert "--conf spark.task.maxFailures=1" in options
    settings = [json.loads(line) for line in command("conf", "--json").stdout.splitlines()]
    assert len(settings) == len(options)
    assert {"name", "value", "need", "why"} == set(settings[0])
