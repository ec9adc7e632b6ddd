"""A pipeline with state on a Spark standalone cluster of two workers, whose executors are killed at random: every
step is what the oracle says, and what `local[2]` makes of it."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import psutil
import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.story import PATIENCE_S, Story
from tests.support.orders import PIPELINE_FILE
from tests.support.processes import KcontrolProcess, until
from tests.support.standalone import StandaloneCluster

pytestmark = [pytest.mark.timeout(1_500), pytest.mark.heavy]

SEED = random.SystemRandom().randrange(1 << 32)
KILLS = 6
EACH = 60


def test_executors_are_killed_and_every_digest_is_that_of_one_process(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    print(f"seed {SEED}")  # noqa: T201 - shown by pytest when the test fails
    dice = random.Random(SEED)
    story = Story(settings, tmp_path, "standalone")
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.executor.memory 512m\nspark.driver.host 127.0.0.1\n")
    env = {**story.env, "SPARK_CONF_DIR": str(conf), "ORDERS_MAX_RECORDS": "100"}
    with StandaloneCluster(tmp_path / "spark", workers=2, env=env) as cluster:
        arguments = ["run", str(PIPELINE_FILE), "--master", cluster.url]
        with KcontrolProcess(*arguments, log=tmp_path / "run.log", env=env) as process:
            process.says("running at step", PATIENCE_S)
            story.orders.produce(EACH)
            story.orders.until_done("the first records are committed", PATIENCE_S)
            for _ in range(KILLS):
                until(
                    lambda: len(cluster.executors()) == 2,
                    "both workers have an executor",
                    PATIENCE_S,
                    process.text,
                )
                with _fed(story):
                    _kill(dice, cluster.executors())
                story.orders.until_done("all records are committed", PATIENCE_S)
    steps = story.orders.check()
    checked = story.command("verify", str(PIPELINE_FILE), "--master", "local[2]", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.count('"agrees": true') == len(steps)


class _fed:
    """Records come before, while and after what happens in the block, on a thread of its own."""

    def __init__(self, story: Story) -> None:
        self._thread = threading.Thread(target=lambda: [story.orders.produce(EACH // 6) for _ in range(6)])

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._thread.join()


def _kill(dice: random.Random, executors: list[psutil.Process]) -> None:
    for executor in dice.sample(executors, dice.choice([1, 1, 2])):
        executor.kill()
