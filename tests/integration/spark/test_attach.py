"""kcontrol.attach: a pipeline inside an application's own session, with a real
coordinator in a process of its own."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import kcontrol
from kcontrol.errors import ConfigurationError, NotDeterministicError, SparkSettingError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.spark.stepper import read_committed
from tests.support.patience import HANG_S

DEADLINE_S = HANG_S


@pytest.fixture
def coordinator(settings: ClusterSettings) -> Iterator[None]:
    command = [
        sys.executable,
        "-m",
        "kcontrol.cli",
        "coordinator",
        "--bootstrap-servers",
        settings.bootstrap_servers,
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    yield
    process.terminate()
    process.wait(DEADLINE_S)


def pipeline_on(source: str, target: str, nodes: int = 1) -> kcontrol.Pipeline:
    return kcontrol.Pipeline(
        f"attached-{secrets.token_hex(3)}",
        nodes=nodes,
        inputs=[
            kcontrol.KafkaInput("events", topic=source, value_format="json", schema="name string, n long")
        ],
        outputs=[kcontrol.KafkaOutput("sums", topic=target, key="name", value_format="json")],
    )


@pytest.mark.usefixtures("coordinator")
def test_an_application_writes_what_arrives_and_stops(
    spark: SparkSession, settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    source, target = topic_factory("in", 2), topic_factory("out", 2)
    app = kcontrol.attach(spark, pipeline_on(source, target), settings=settings, work_dir=tmp_path)
    mine = app.exchange(app.read("events"), by="name")
    app.write(mine.groupBy("name").agg(F.sum("n").alias("total")), "sums", mode="update")
    app.start()
    with pytest.raises(ConfigurationError, match=r"exchange\(\) must come before start\(\)"):
        app.exchange(app.read("events"), by="name")
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for number in range(10):
        producer.produce(
            source, json.dumps({"name": "ab"[number % 2], "n": number}).encode(), partition=number % 2
        )
    assert producer.flush(HANG_S) == 0
    latest: dict[str, int] = {}
    deadline = time.monotonic() + DEADLINE_S
    while latest != {"a": 20, "b": 25}:
        assert time.monotonic() < deadline, latest
        assert not app.await_termination(0.2)
        for row in sorted(read_committed(settings, target), key=lambda row: row.step):
            value = json.loads(row.value or b"")
            latest[value["name"]] = value["total"]
    app.stop()
    assert app.await_termination(HANG_S)
    assert spark.range(3).count() == 3


def test_wrong_use_is_told_in_words(
    spark: SparkSession, settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    pipeline = pipeline_on(topic_factory("in"), topic_factory("out"))
    with pytest.raises(ConfigurationError, match="nodes 0 to 0"):
        kcontrol.attach(spark, pipeline, settings=settings, node=1, work_dir=tmp_path)
    app = kcontrol.attach(spark, pipeline, settings=settings, work_dir=tmp_path)
    with pytest.raises(ConfigurationError, match="no input 'other'"):
        app.read("other")
    with pytest.raises(ConfigurationError, match="not a streaming one"):
        app.write(spark.range(3), "sums")
    with pytest.raises(ConfigurationError, match="no frame serves it"):
        app.start()
    app.write(app.read("events").select("name", F.rand().alias("n")), "sums")
    with pytest.raises(NotDeterministicError, match="rand"):
        app.start()
    with pytest.raises(ConfigurationError, match="after start"):
        app.await_termination()


def test_what_an_application_exchanges_by_has_to_be_what_it_takes_together(
    spark: SparkSession, settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    pipeline = pipeline_on(topic_factory("in", 2), topic_factory("out"), nodes=2)
    app = kcontrol.attach(spark, pipeline, settings=settings, work_dir=tmp_path)
    rows = app.read("events").select("name", "n")
    with pytest.raises(ConfigurationError, match="name=3"):
        app.exchange(rows, by="n", name=3)  # type: ignore[arg-type]
    mine = app.exchange(rows, by="n", name="numbers", compression="zstd")
    assert mine.columns == ["name", "n"]
    app.write(mine.groupBy("name").count(), "sums", mode="update")
    with pytest.raises(
        ConfigurationError, match=r"exchange 'numbers' by n: .*exchange\(\.\.\., by=\[\"name\"\]\)"
    ):
        app.start()


def test_a_session_without_what_correctness_needs_is_refused_with_every_reason(
    spark: SparkSession, settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    pipeline = pipeline_on(topic_factory("in"), topic_factory("out"))
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    other.conf.set("spark.sql.streaming.stateStore.checkpointFormatVersion", "1")
    with pytest.raises(SparkSettingError) as refused:
        kcontrol.attach(other, pipeline, settings=settings, work_dir=tmp_path)
    assert "spark.sql.session.timeZone is 'Asia/Tokyo' but must be 'UTC'" in str(refused.value)
    assert "checkpointFormatVersion is '1' but must be '2'" in str(refused.value)
