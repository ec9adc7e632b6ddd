"""Every mistake that a user can make ends with one sentence on standard error and its own exit code."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from confluent_kafka import Producer

from kcontrol.adapters.kafka.admin.cluster import CONTROL_PARTITIONS, ensure_topics
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.locks import lock
from kcontrol.wire.names import control_partition
from tests.conftest import TopicFactory
from tests.integration.cli.conftest import Command
from tests.integration.kafka.steps_maker import StepsMaker
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC

NO_BROKER = "127.0.0.1:1"

PIPELINE = """
import kcontrol

pipeline = kcontrol.Pipeline(
    "{name}",
    inputs=[kcontrol.KafkaInput("numbers", topic="{input}")],
    outputs=[kcontrol.KafkaOutput("copies", topic="{output}")],
)


@pipeline.query
def copies(numbers):
    return {{"copies": numbers.select("value")}}
"""


def sentence(result: CompletedProcess[str], code: int) -> str:
    """What standard error says, if it is one sentence for people and the exit code is right."""
    assert result.returncode == code, result.stderr
    said = [line for line in result.stderr.splitlines() if line.startswith("kcontrol: ")]
    assert len(said) == 1, result.stderr
    assert "Traceback" not in result.stderr
    return said[0]


def write_pipeline(
    directory: Path, name: str, input_topic: str = "numbers", output_topic: str = "copies"
) -> str:
    file = directory / f"{name.replace('-', '_')}.py"
    file.write_text(PIPELINE.format(name=name, input=input_topic, output=output_topic))
    return str(file)


def test_a_second_run_of_the_same_node_is_refused(command: Command, tmp_path: Path) -> None:
    """It would share a directory with the first, and each would take the node's number from the other."""
    file = write_pipeline(tmp_path, "kept-twice")
    with lock(tmp_path / "data" / "locks" / "kept-twice" / "node-0"):
        said = sentence(command("run", file, "--data-dir", "data"), 2)
    assert "node 0 of pipeline 'kept-twice' is kept by another kcontrol run" in said
    assert f"pid {os.getpid()}" in said
    assert "kcontrol resume kept-twice" in said
    freed = sentence(command("run", file, "--data-dir", "data"), 22)
    assert "numbers" in freed, "whose holder has ended is no obstacle: the next thing is looked at"


@pytest.mark.parametrize(
    "arguments", [("status", "p"), ("steps", "p"), ("log", "p"), ("pause", "p"), ("coordinator",)]
)
def test_no_broker(command: Command, arguments: tuple[str, ...]) -> None:
    said = sentence(command(*arguments, "--bootstrap-servers", NO_BROKER), 3)
    assert NO_BROKER in said


def test_no_address_at_all(command: Command) -> None:
    said = sentence(command("status", "p", KCONTROL_BOOTSTRAP_SERVERS=""), 2)
    assert "--bootstrap-servers" in said
    assert "kcontrol.toml" in said


def test_wrong_setting_in_the_file_is_named(command: Command, tmp_path: Path) -> None:
    (tmp_path / "kcontrol.toml").write_text("[kafka]\nbootstrap_server = 'b:1'\n")
    assert "bootstrap_server" in sentence(command("status", "p"), 2)


def test_unknown_option_and_unknown_command(command: Command) -> None:
    for arguments in (("status", "p", "--jason"), ("stauts", "p")):
        result = command(*arguments)
        assert result.returncode == 2
        assert arguments[-1] in result.stderr or arguments[0] in result.stderr
        assert "Traceback" not in result.stderr


def test_a_pipeline_that_is_not_there(command: Command, settings: ClusterSettings) -> None:
    ensure_topics(settings)
    for name in ("status", "steps", "log", "pause", "resume", "stop", "checkpoint"):
        assert "nobody-knows-it" in sentence(command(name, "nobody-knows-it"), 10)


def test_misspelt_commands_and_pipelines_and_ranges_that_are_none(
    command: Command, settings: ClusterSettings, tmp_path: Path, unique: str
) -> None:
    assert "Did you mean 'status'?" in command("stauts", "p").stderr
    assert "--from 5 --to 3" in sentence(command("steps", "p", "--from", "5", "--to", "3"), 2)
    (tmp_path / "kcontrol.toml").write_text(f"[kafka]\nprefix = 'l{unique}'\n")
    own = settings.model_copy(update={"prefix": f"l{unique}"})
    ensure_topics(own, "flights")
    assert "no pipeline was ever submitted" in command("list").stdout
    asyncio.run(_submit(own))
    assert "Did you mean 'flights'?" in sentence(command("status", "flihgts"), 10)
    for arguments in (("list",), ("status",)):
        assert "flights  starting  step 0" in command(*arguments).stdout
    said = command("list", "--json").stdout
    assert json.loads(said)["pipeline"] == "flights"


async def _submit(settings: ClusterSettings) -> None:
    control = await KafkaControlLog.open(settings, "flights")
    try:
        await control.append([replace(SPEC, pipeline="flights")])
    finally:
        await control.close()


def test_a_record_that_is_not_ours_is_said_once_and_counted(
    command: Command, settings: ClusterSettings, tmp_path: Path, unique: str
) -> None:
    (tmp_path / "kcontrol.toml").write_text(f"[kafka]\nprefix = 'l{unique}'\n")
    own = settings.model_copy(update={"prefix": f"l{unique}"})
    ensure_topics(own, "flights")
    asyncio.run(_submit(own))
    producer = Producer({"bootstrap.servers": own.bootstrap_servers})
    partition = control_partition("flights", CONTROL_PARTITIONS)
    for number in range(4):
        producer.produce(own.names().control_topic(), b"poison", f"flights/{number}", partition)
    assert producer.flush(HANG_S) == 0
    found = command("status", "flights", "-v")
    assert found.stderr.count("Left out") == 1
    assert "left out   4 records" in found.stdout
    assert found.stdout.count("offset ") == 4


def test_a_name_that_no_pipeline_can_have(command: Command) -> None:
    assert "Not_A_Name" in sentence(command("status", "Not_A_Name"), 2)


def test_missing_and_broken_pipeline_files(command: Command, tmp_path: Path) -> None:
    assert "nowhere.py" in sentence(command("run", "nowhere.py"), 2)
    (tmp_path / "broken.py").write_text("import kcontrol\n\n1 / 0\n")
    said = sentence(command("node", "broken.py"), 2)
    assert "line 3" in said
    assert "ZeroDivisionError" in said
    (tmp_path / "empty.py").write_text("")
    assert "defines no pipeline" in sentence(command("node", "empty.py"), 2)


def test_a_node_that_the_pipeline_does_not_have(command: Command, tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, "one-node")
    assert "0 to 0" in sentence(command("node", file, "--node", "3"), 2)
    assert "0 to 0" in sentence(command("run", file, "--node", "1"), 2)
    assert "0 to 1" in sentence(command("run", file, "--nodes", "2", "--node", "2"), 2)


def test_no_java(command: Command, tmp_path: Path) -> None:
    file = write_pipeline(tmp_path, "no-java")
    for arguments in (("node", file), ("broker",)):
        said = sentence(command(*arguments, JAVA_HOME="", PATH=str(tmp_path)), 4)
        assert "Java" in said


def test_wrong_java(command: Command, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    file = write_pipeline(tmp_path, "old-java")
    said = sentence(command("node", file, JAVA_HOME=str(tmp_path), PATH=f"{java.parent}:/bin:/usr/bin"), 4)
    assert "11" in said
    assert "17" in said


def test_control_topic_with_wrong_settings(
    command: Command, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    topic = topic_factory("control", partitions=8, config={"cleanup.policy": "delete"})
    (tmp_path / "kcontrol.toml").write_text(f"[kafka.names]\ncontrol_topic = '{topic}'\n")
    said = sentence(command("coordinator"), 22)
    assert topic in said
    assert "cleanup.policy" in said


def test_input_topic_that_is_not_there(command: Command, tmp_path: Path, unique: str) -> None:
    file = write_pipeline(tmp_path, f"no-input-{unique}", input_topic=f"missing-{unique}")
    assert f"missing-{unique}" in sentence(command("run", file), 22)


@dataclass(frozen=True)
class FakeJava:
    """Answers what version it is; that it was asked for anything else is found in the file `started`."""

    environment: dict[str, str]
    started: Path


@pytest.fixture
def java(tmp_path: Path) -> FakeJava:
    program, started = tmp_path / "jdk" / "bin" / "java", tmp_path / "started"
    program.parent.mkdir(parents=True)
    program.write_text(
        '#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17.0.2"\' >&2 && exit 0\ntouch '
        f"{started}\nexit 1\n"
    )
    program.chmod(0o755)
    return FakeJava(
        {"JAVA_HOME": str(program.parents[1]), "PATH": f"{program.parent}:/bin:/usr/bin"}, started
    )


@pytest.mark.parametrize("name", ["submit", "node", "run"])
def test_topics_that_are_missing_are_named_before_spark_is_started(
    command: Command, topic_factory: TopicFactory, tmp_path: Path, unique: str, java: FakeJava, name: str
) -> None:
    there = topic_factory("there")
    for file, missing in (
        (write_pipeline(tmp_path, f"early-{unique}-in", input_topic=f"no-{unique}"), f"no-{unique}"),
        (
            write_pipeline(tmp_path, f"early-{unique}-out", input_topic=there, output_topic=f"none-{unique}"),
            f"none-{unique}",
        ),
    ):
        said = command(name, file, **java.environment)
        assert missing in sentence(said, 22)
        assert "starting Spark" not in said.stdout + said.stderr
    assert not java.started.exists()


def test_a_schema_with_a_misspelt_type_is_named_before_spark_is_started(
    command: Command, tmp_path: Path, unique: str, java: FakeJava
) -> None:
    file = Path(write_pipeline(tmp_path, f"misspelt-{unique}"))
    file.write_text(
        file.read_text().replace('topic="numbers"', 'topic="numbers", value_format="json", schema="n LONGG"')
    )
    assert "'LONGG' is not a type of Spark" in sentence(command("run", str(file), **java.environment), 2)
    assert not java.started.exists()


@pytest.mark.parametrize("name", ["verify", "replay"])
def test_an_input_that_is_gone_is_said_before_spark_is_started(
    command: Command,
    settings: ClusterSettings,
    topic_factory: TopicFactory,
    tmp_path: Path,
    java: FakeJava,
    name: str,
) -> None:
    steps = StepsMaker(settings, topic_factory)
    steps.step(1, {"delays": {0: [b"a"]}})
    (tmp_path / "kcontrol.toml").write_text(f'[kafka]\nprefix = "{steps.settings.prefix}"\n')
    [gone] = {each.topic for each in steps.spec.inputs}
    TopicAdmin(settings).delete(gone)
    file = write_pipeline(tmp_path, steps.spec.pipeline)
    said = command(name, file, **java.environment)
    assert gone in sentence(said, 8)
    assert "looking at the cluster and the topics ..." in said.stderr
    TopicAdmin(settings).create(gone, 1)
    again = command(name, file, **java.environment)
    assert f"topic {gone!r} was deleted and recreated" in sentence(again, 8)
    assert "starting Spark" not in said.stderr + again.stderr
    assert not java.started.exists()


def test_a_program_is_told_nothing_of_what_takes_long(command: Command, tmp_path: Path, unique: str) -> None:
    file = write_pipeline(tmp_path, f"quiet-{unique}", input_topic=f"no-{unique}")
    for arguments in (("submit", file, "--json"), ("run", file, "--json")):
        said = command(*arguments)
        assert said.stderr == f"{sentence(said, 22)}\n"
        assert said.stdout == ""


def test_help_lists_the_exit_codes(command: Command) -> None:
    result = command("--help")
    assert result.returncode == 0
    for code in ("Exit codes:", "130  interrupted", "9    the pipeline has halted"):
        assert code in result.stdout
