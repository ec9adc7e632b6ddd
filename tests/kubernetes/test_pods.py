"""Resources as a user applies them, and pods that are processes: a real pipeline with real Spark survives `kubectl delete pod`,
and so do the coordinator and who looks after its region."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kcontrol.core.kubernetes.resources import PIPELINE, REGION, REGION_OPERATOR
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.kubernetes.test_resources import bare
from tests.support.kubernetes.kubelet import Kubelet
from tests.support.kubernetes.server import KubernetesServer
from tests.support.processes import KcontrolProcess, until

pytestmark = [pytest.mark.kubernetes, pytest.mark.timeout(900)]

NAME = "copies"
PATIENCE_S = 240.0
CODE = """
from pyspark.sql import DataFrame

import kcontrol

pipeline = kcontrol.Pipeline(
    "copies",
    inputs=[kcontrol.KafkaInput("rows", topic="{rows}", value_format="json", schema="number INT")],
    outputs=[kcontrol.KafkaOutput("out", topic="{out}", value_format="json")],
    steps=kcontrol.StepPolicy(min_records=1, max_delay="200 ms", max_records=1000),
)


@pipeline.query
def out(rows: DataFrame) -> DataFrame:
    return rows
"""


class Cluster:
    """The operator, and a kubelet that runs what it makes."""

    def __init__(
        self, kubernetes: KubernetesServer, settings: ClusterSettings, new_topic: TopicFactory, home: Path
    ) -> None:
        self.kubernetes, self.settings, self.home = kubernetes, settings, home
        self.rows, self.out = new_topic("rows"), new_topic("out")
        self.sent = 0
        config = f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\n'
        kubernetes.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "kcontrol-config", "namespace": "kcontrol"},
                "data": {"kcontrol.toml": config},
            }
        )
        self.kubelet = Kubelet(kubernetes, home / "pods")
        self.operator = KcontrolProcess(
            *("operator", "--namespace", "kcontrol", "--bootstrap-servers", settings.bootstrap_servers),
            log=home / "operator.log",
            cwd=home,
            env={"KUBECONFIG": str(kubernetes.operator_kubeconfig)},
        )

    def send(self, count: int = 20) -> None:
        producer = Producer({"bootstrap.servers": self.settings.bootstrap_servers})
        for number in range(self.sent, self.sent + count):
            producer.produce(self.rows, json.dumps({"number": number}))
        self.sent += count
        assert producer.flush(30) == 0

    def status(self, kind: str, name: str) -> dict[str, Any]:
        found = self.kubernetes.get(kind, name)
        return {} if found is None else found.get("status", {})

    def pods(self, component: str) -> dict[str, str]:
        """Names of those that are not being deleted, with their uids."""
        return {
            each["metadata"]["name"]: each["metadata"]["uid"]
            for each in self.kubernetes.all("pods")
            if each["metadata"]["labels"]["app.kubernetes.io/component"] == component
            and "deletionTimestamp" not in each["metadata"]
        }

    def replace(self, component: str) -> None:
        """`kubectl delete pod`, and another one runs."""
        before = self.pods(component)
        assert before, component
        self.kubernetes.kubectl("-n", "kcontrol", "delete", "pod", *before, "--wait=false")

        def others() -> bool:
            now = self.pods(component)
            return bool(now) and not set(now.values()) & set(before.values())

        until(others, f"other pods of {component}", PATIENCE_S, self.hint)

    def until_copied(self) -> None:
        """All rows, each once."""

        def copied() -> bool:
            return len(self.copies()) >= self.sent

        until(copied, f"{self.sent} rows are copied", PATIENCE_S, self.hint)
        assert Counter(self.copies()) == Counter(range(self.sent))

    def copies(self) -> list[int]:
        """What is committed in the output now."""
        options = {
            "bootstrap.servers": self.settings.bootstrap_servers,
            "group.id": "copies",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        consumer, found = Consumer(options), list[int]()
        try:
            consumer.assign([TopicPartition(self.out, 0, OFFSET_BEGINNING)])
            while (message := consumer.poll(30)) is not None:
                if message.error() is not None:
                    return found
                found.append(json.loads(message.value() or b"")["number"])
        finally:
            consumer.close()
        raise TimeoutError(f"topic {self.out!r} is not read to its end")

    def hint(self) -> str:
        logs = [*self.kubelet.failures[-3:], self.operator.text()[-3000:]]
        logs += [
            f"{path.name}\n{path.read_text(errors='replace')[-2500:]}"
            for path in self.kubelet.home.glob("*.log")
        ]
        return "\n--- ".join(logs)


@pytest.fixture
def cluster(
    kubernetes: KubernetesServer, settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> Iterator[Cluster]:
    made = Cluster(kubernetes, settings, topic_factory, tmp_path)
    with made.operator:
        made.operator.says("the operator is ready", 180)
        made.kubelet.start()
        try:
            yield made
        finally:
            made.kubelet.stop()


def test_a_pipeline_and_its_region_survive_the_deletion_of_any_pod(cluster: Cluster) -> None:
    text = CODE.format(rows=cluster.rows, out=cluster.out)
    code = {"file": "copies.py", "text": text}
    cluster.kubernetes.apply(bare(PIPELINE, NAME, nodes=1, code=code, coordinators=1, driverMemory="512m"))
    cluster.send()
    cluster.until_copied()
    cluster.kubernetes.kubectl(
        *("-n", "kcontrol", "wait", "--for=condition=Ready", f"pipeline/{NAME}", "--timeout=50s")
    )
    cluster.replace("node")
    cluster.send()
    cluster.until_copied()
    cluster.replace("coordinator")
    cluster.send()
    cluster.until_copied()

    cluster.kubernetes.apply(
        bare(REGION_OPERATOR, "job", jobName="job", replicas=1),
        bare(REGION, "all", pipelines=[NAME], trigger="operatorDriven", drainRequest={"id": "first"}),
    )
    until(
        lambda: cluster.status(REGION, "all").get("answers", {}).get("drain") == "done",
        "the region is drained once",
        PATIENCE_S,
        cluster.hint,
    )
    until(
        lambda: cluster.status(REGION_OPERATOR, "job").get("hasStarted"),
        "somebody is in charge",
        60,
        cluster.hint,
    )
    before = cluster.status(REGION, "all")
    assert (before["lastCompletedSeqID"], before["asked"]) == (1, {"drain": "first"})
    cluster.operator.restart()
    cluster.replace("region-controller")

    def reset() -> bool:
        now = cluster.status(REGION, "all")
        return now["controller"] != before["controller"] and now["state"] == "processing"

    until(reset, "another is in charge, and has reset the region", PATIENCE_S, cluster.hint)
    assert cluster.status(REGION, "all")["lastCompletedSeqID"] == 1
    cluster.send()
    cluster.until_copied()
    cluster.kubernetes.kubectl("-n", "kcontrol", "delete", REGION, "all", "--timeout=50s")
    cluster.kubernetes.kubectl("-n", "kcontrol", "delete", f"{PIPELINE}/{NAME}", f"{REGION_OPERATOR}/job")
    until(lambda: not cluster.pods("node"), "no pod is left", PATIENCE_S, cluster.hint)
