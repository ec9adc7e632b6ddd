"""`kcontrol deliver` as a user starts it: it delivers, is told of by `kcontrol status` and /metrics, and ends in words."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path

import pytest

from kcontrol.errors import ConfigurationError, DeliveryHaltedError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lives import TABLE, expected_rows, log_of, outputs
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.patience import HANG_S
from tests.support.postgres import PASSWORD, Database
from tests.support.processes import KcontrolProcess, run_kcontrol, until

TABLE_TEXT = f"CREATE TABLE {TABLE} (step bigint, key int, value bigint, loaded_at timestamptz DEFAULT now())"


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    return log_of((1,), settings, topic_factory)


def _cluster(log: StepsMaker, directory: Path) -> None:
    text = (
        f'[kafka]\nbootstrap_servers = "{log.settings.bootstrap_servers}"\nprefix = "{log.settings.prefix}"\n'
    )
    (directory / "kcontrol.toml").write_text(text)


def _asked(database: Database, *more: str) -> list[str]:
    where = ("--to", database.url, "--output", "delays", "--table", TABLE)
    return ["deliver", PIPELINE, *where, "--format", "json", *more]


def test_it_delivers_and_is_told_of(log: StepsMaker, database: Database, tmp_path: Path) -> None:
    _cluster(log, tmp_path)
    database.run(TABLE_TEXT)
    password = tmp_path / "password"
    password.write_text(f"{PASSWORD}\n")
    asked = _asked(database, "--password-file", str(password), "--metrics-port", "0", "--on-bad-row", "skip")
    with KcontrolProcess(*asked, log=tmp_path / "log", cwd=tmp_path) as process:
        process.says("from step 1 on")
        log.step(
            2,
            {"delays": {0: [b'{"step": "no number"}', *outputs(2)["delays"][0]], 1: outputs(2)["delays"][1]}},
        )
        until(
            lambda: database.run("SELECT step FROM kcontrol_steps") == [(2,)],
            "step 2 is there",
            HANG_S,
            process.text,
        )
        url = process.text().partition("metrics at ")[2].partition("\n")[0]
        with urllib.request.urlopen(url, timeout=HANG_S) as answer:
            metrics = answer.read().decode()
        labels = f'output="delays",pipeline="{PIPELINE}",target="{TABLE}"'
        assert f"kcontrol_delivered_step{{{labels}}} 2.0" in metrics
        assert f"kcontrol_delivery_lag_steps{{{labels}}} 0.0" in metrics
        assert f"kcontrol_delivery_bad_rows_total{{{labels}}} 1.0" in metrics
        assert 'guarantee="exactly_once"' in metrics
        shown = run_kcontrol("status", PIPELINE, cwd=tmp_path)
        until(
            lambda: "step 2, 0 behind" in run_kcontrol("status", PIPELINE, cwd=tmp_path).stdout,
            "it is told of",
            HANG_S,
        )
        assert process.terminate() == 0
        assert "left out: step 2, partition 0, offset" in process.text()
        assert PASSWORD not in process.text()
    shown = run_kcontrol("status", PIPELINE, cwd=tmp_path)
    assert f"delivery   delays to postgresql {TABLE}, exactly_once: stopped, step 2, 0 behind" in shown.stdout
    (told,) = json.loads(run_kcontrol("status", PIPELINE, "--json", cwd=tmp_path).stdout)["deliveries"]
    assert (told["guarantee"], told["step"], told["state"]) == ("exactly_once", 2, "stopped")
    rows = database.run(f"SELECT step, key, value FROM {TABLE} WHERE loaded_at IS NOT NULL ORDER BY 1, 2, 3")
    assert rows == expected_rows([1, 2])


@pytest.mark.parametrize(
    ("more", "code", "sentence"),
    [
        (("--output", "none"), NotFoundError, "has no output 'none'; it has delays, totals"),
        (("--mode", "upsert"), ConfigurationError, "--mode upsert and --key COLUMN,... need each other"),
        (("--to", "mysql://here"), ConfigurationError, "--to must begin with postgresql://"),
        (("--start", "soon"), ConfigurationError, "give first, next, or the number of a step"),
        (("--table", "other"), DeliveryHaltedError, "there is no table 'other'"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    log: StepsMaker, database: Database, tmp_path: Path, more: tuple[str, ...], code: type, sentence: str
) -> None:
    _cluster(log, tmp_path)
    ended = run_kcontrol(*_asked(database, *more), cwd=tmp_path, env={"PGPASSWORD": os.environ["PGPASSWORD"]})
    assert ended.returncode == code.exit_code, ended.stderr
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr
