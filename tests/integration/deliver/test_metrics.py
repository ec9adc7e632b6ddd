"""What `kcontrol deliver --metrics-port` serves of each kind of target; of a database it is in test_command.py."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.deliver.lake_lives import COLUMNS
from tests.integration.deliver.lives import expected_rows, log_of, outputs
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.iceberg import CATALOG, NAME, describe, make_catalog
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, until
from tests.support.webhook_receiver import receiver


@dataclass(frozen=True)
class Place:
    """Where to deliver. name: by which it is known."""

    address: str
    name: str
    guarantee: str
    options: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def log(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    """A record of step 2 is no row of any target."""
    maker = log_of((1,), settings, topic_factory)
    rows = outputs(2)["delays"]
    maker.step(2, {"delays": {0: [b"no JSON", *rows[0]], 1: rows[1]}})
    return maker


@pytest.fixture(params=["delta", "parquet", "iceberg", "webhook"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    created = ("--create", COLUMNS)
    if request.param == "webhook":
        with receiver() as hook:
            name = hook.url.removeprefix("http://")
            yield Place(hook.url, name, "at_least_once", ("--start", "first"))
    elif request.param == "iceberg":
        make_catalog(tmp_path)
        describe(tmp_path, put=monkeypatch.setenv)
        name = f"{CATALOG}/{NAME}"
        yield Place(f"iceberg://{name}", name, "exactly_once", created)
    else:
        path = tmp_path / "rows"
        yield Place(f"{request.param}://{path}", str(path), "exactly_once", created)


def test_each_kind_of_target_has_its_metrics(log: StepsMaker, place: Place, tmp_path: Path) -> None:
    (tmp_path / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{log.settings.bootstrap_servers}"\nprefix = "{log.settings.prefix}"\n'
    )
    where = ("--to", place.address, "--output", "delays", "--format", "json", *place.options)
    asked = ("deliver", PIPELINE, *where, "--on-bad-row", "skip", "--metrics-port", "0")
    said = f'output="delays",pipeline="{PIPELINE}"'
    labels = f'{{{said},target="{place.name}"}}'
    served = ""
    with KcontrolProcess(*asked, log=tmp_path / "log", cwd=tmp_path) as process:
        process.says("/metrics\n")
        url = process.text().partition("metrics at ")[2].partition("\n")[0]

        def is_through() -> bool:
            nonlocal served
            with urllib.request.urlopen(url, timeout=HANG_S) as answer:
                served = answer.read().decode()
            # Of a step that is counted last.
            return f"kcontrol_delivery_bad_rows_total{labels} 1.0" in served

        until(is_through, "it has delivered step 2", HANG_S, lambda: process.text() + served)
        assert process.terminate() == 0
    lines = served.splitlines()
    for name, value in (
        ("delivered_step", 2),
        ("delivered_steps_total", 2),
        ("delivered_rows_total", len(expected_rows([1, 2]))),
        ("delivery_lag_steps", 0),
        ("delivery_lag_seconds", 0),
    ):
        assert f"kcontrol_{name}{labels} {value:.1f}" in lines, served
    for state, value in (("running", 1), ("away", 0), ("halted", 0)):
        rest = f'{said},state="{state}",target="{place.name}"'
        assert f'kcontrol_delivery_state{{guarantee="{place.guarantee}",{rest}}} {value:.1f}' in lines, served
