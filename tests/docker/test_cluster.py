"""The image and docker/compose.yaml with a real engine: steps go on when parts are
killed, and whoever looks on sees it.

`pytest tests/docker -m docker --log-cli-level=INFO` builds the image, unless KCONTROL_IMAGE names one, and
needs the ports of compose.yaml. KAFKA_IMAGE, PROMETHEUS_IMAGE and GRAFANA_IMAGE take the place of the
official images, and KCONTROL_TEST_WITHOUT names services to leave out: see `tests/docker/standins`. The tests
follow each other on one cluster.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections import Counter
from collections.abc import Iterator

import httpx
import pytest

from examples import departures
from examples.step_feed import StepFeed, records_in, recovered_ms
from examples.topic_reading import read_topics
from tests.docker.cluster import BOOTSTRAP_SERVERS, REST, ROOT, Cluster, ask_prometheus, eventually, run

_log = logging.getLogger(__name__)

pytestmark = [pytest.mark.docker, pytest.mark.timeout(1_800)]

START_TIMEOUT_S = 300
RECOVERY_TIMEOUT_S = 240
SCRAPED_TIMEOUT_S = 60
PIPELINE = "/v1/pipelines/departures"
COORDINATORS = ("coordinator-1", "coordinator-2")
NODES = tuple(f"node-{number}" for number in range(departures.NODES))


@pytest.fixture(scope="module")
def image() -> str:
    given = os.environ.get("KCONTROL_IMAGE")
    if not given:
        given = "kcontrol:test"
        run(
            [
                "docker",
                "build",
                "--network",
                "host",
                "--file",
                str(ROOT / "docker" / "Dockerfile"),
                "--tag",
                given,
                str(ROOT),
            ]
        )
    return given


@pytest.fixture(scope="module")
def cluster(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    without = os.environ.get("KCONTROL_TEST_WITHOUT", "").split()
    started = Cluster(tmp_path_factory.mktemp("cluster"), image, without)
    started.remove()
    try:
        started.start()
        yield started
        _log.info("%s", started.last_words())
    finally:
        started.remove()


@pytest.fixture(scope="module")
def feed(cluster: Cluster) -> Iterator[StepFeed]:
    """Committed steps, read from this machine through the port that Kafka publishes."""
    following = StepFeed("departures", BOOTSTRAP_SERVERS)
    yield following
    following.close()


def await_steps(feed: StepFeed, more: int, timeout_s: float) -> None:
    before = feed.committed
    assert feed.wait_for(lambda steps: len(steps) >= before + more, timeout_s), (
        f"no {more} steps after step {before}"
    )


def is_healthy(cluster: Cluster, service: str) -> bool:
    return cluster.state(service)["Health"]["Status"] == "healthy"


def test_steps_are_committed_by_all_nodes(cluster: Cluster, feed: StepFeed) -> None:
    began = time.monotonic()
    await_steps(feed, 5, START_TIMEOUT_S)
    _log.info("step %d after %.0f s", feed.committed, time.monotonic() - began)
    assert {each["node"] for each in cluster.get(f"{PIPELINE}/nodes")["nodes"]} == set(
        range(departures.NODES)
    )
    for service in (*COORDINATORS, *NODES, "serve"):
        eventually(lambda name=service: is_healthy(cluster, name), SCRAPED_TIMEOUT_S, f"{service} well")


def test_nobody_is_root_and_nothing_was_fetched(cluster: Cluster) -> None:
    for service in (*COORDINATORS, *NODES, "serve"):
        assert cluster.execute(service, "id", "-u").strip() == "10001"
        assert "no" in cluster.execute(
            service, "sh", "-c", "test -e ~/.cache/kcontrol || test -e ~/.ivy2 || echo no"
        )
        # The compiled codec was in the image.
        assert "no" in cluster.execute(service, "sh", "-c", "test -e ~/.cache/numba || echo no")


def test_only_who_has_the_token_is_answered(cluster: Cluster) -> None:
    assert httpx.get(f"{REST}{PIPELINE}").status_code == 401
    assert httpx.get(f"{REST}/metrics").status_code == 401
    assert httpx.get(f"{REST}/health/ready").status_code == 200
    assert "text/html" in httpx.get(f"{REST}/", follow_redirects=True).headers["content-type"]
    assert cluster.token not in run(
        ["docker", "inspect", *(cluster.container(name) for name in cluster.services)]
    )


def test_prometheus_sees_every_process_and_knows_the_alerts(cluster: Cluster) -> None:
    def all_are_up() -> bool:
        targets = ask_prometheus("targets")["activeTargets"]
        assert len(targets) == len(COORDINATORS) + len(NODES) + 1
        return all(target["health"] == "up" for target in targets)

    eventually(all_are_up, SCRAPED_TIMEOUT_S, "every target up")
    rules = [rule for group in ask_prometheus("rules")["groups"] for rule in group["rules"]]
    assert rules
    eventually(
        lambda: {rule["health"] for rule in ask_prometheus("rules")["groups"][0]["rules"]} == {"ok"},
        30,
        "all rules ok",
    )
    [steps] = ask_prometheus("query", query="max(kcontrol_committed_step)")["result"]
    assert int(steps["value"][1]) > 0


def test_grafana_has_the_dashboard(cluster: Cluster) -> None:
    if "grafana" not in cluster.services:
        pytest.skip("there is no image of Grafana here")
    eventually(
        lambda: httpx.get("http://127.0.0.1:3000/api/health").status_code == 200,
        START_TIMEOUT_S,
        "Grafana up",
    )
    password = (cluster.directory / "secrets" / "grafana-password").read_text()
    shown = httpx.get("http://127.0.0.1:3000/api/dashboards/uid/kcontrol", auth=("admin", password))
    assert shown.status_code == 200, shown.text


def active_coordinators() -> list[str]:
    """The services of those that have the pipeline, as Prometheus knows them."""
    found = ask_prometheus("query", query='kcontrol_coordinator_active{pipeline="departures"} == 1')["result"]
    return [each["metric"]["instance"].partition(":")[0] for each in found]


@pytest.mark.parametrize("victim", ["coordinator", "node"])
def test_steps_go_on_when_one_is_killed(cluster: Cluster, feed: StepFeed, victim: str) -> None:
    service = "node-1"
    if victim == "coordinator":
        eventually(lambda: len(active_coordinators()) == 1, SCRAPED_TIMEOUT_S, "one active coordinator")
        [service] = active_coordinators()
    restarts = cluster.state(service)["RestartCount"]
    killed_ms = time.time() * 1_000
    cluster.kill(service)
    recovered = feed.wait_for(lambda steps: recovered_ms(steps, killed_ms) is not None, RECOVERY_TIMEOUT_S)
    assert recovered, f"no step after {service} was killed"
    _log.info(
        "%s killed: the next step was committed after %.1f s",
        service,
        (recovered_ms(feed.steps, killed_ms) or 0) / 1e3,
    )
    await_steps(feed, 3, RECOVERY_TIMEOUT_S)
    eventually(
        lambda: cluster.state(service)["RestartCount"] > restarts,
        RECOVERY_TIMEOUT_S,
        f"{service} was started again",
    )


def test_a_checkpoint_is_saved_for_all_nodes(cluster: Cluster, feed: StepFeed) -> None:
    asked = cluster.post(f"{PIPELINE}/checkpoints")
    eventually(lambda: cluster.get(asked["outcome"])["state"] == "done", RECOVERY_TIMEOUT_S, "the checkpoint")
    newest = cluster.get(f"{PIPELINE}/checkpoints")["checkpoints"][-1]
    assert len(newest["parts"]) == departures.NODES
    await_steps(feed, 1, RECOVERY_TIMEOUT_S)


def test_every_departure_is_counted_once_and_a_stopped_pipeline_stays_down(
    cluster: Cluster, feed: StepFeed
) -> None:
    cluster.compose("stop", "feed")
    sent: Counter[str] = Counter()
    sent_late = 0
    for message in read_topics(BOOTSTRAP_SERVERS, ["departures"]):
        departure = json.loads(message.value())
        sent[departure["carrier"]] += 1
        sent_late += departure["delay_min"] >= departures.LATE_MIN
    assert feed.wait_for(lambda steps: records_in(steps) >= sent.total(), RECOVERY_TIMEOUT_S)
    counted: dict[str, int] = {}
    late = 0
    for message in read_topics(BOOTSTRAP_SERVERS, ["carriers", "late"]):
        value = json.loads(message.value())
        if message.topic() == "carriers":
            counted[value["carrier"]] = max(counted.get(value["carrier"], 0), value["departures"])
        else:
            late += 1
    assert counted == dict(sent)
    assert late == sent_late > 0
    _log.info("%d departures in %d steps, each counted once", sent.total(), feed.committed)
    cluster.post(f"{PIPELINE}/stop")
    for service in NODES:
        eventually(
            lambda name=service: cluster.state(name)["Status"] == "exited",
            RECOVERY_TIMEOUT_S,
            f"{service} ended",
        )
        assert cluster.state(service)["ExitCode"] == 0
