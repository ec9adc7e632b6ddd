"""docs/howto/deliver-files.md as it is written there, with other paths; and what `kcontrol deliver` refuses for files."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack
from pathlib import Path

import pytest

from kcontrol.errors import ConfigurationError, DeliveryHaltedError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.docs.blocks import blocks_of
from tests.docs.expected import missing
from tests.integration.deliver.lake_lives import steps_of
from tests.integration.kafka.steps_maker import PIPELINE, StepsMaker
from tests.support.iceberg import iceberg_steps, make_catalog
from tests.support.processes import KcontrolProcess, run_kcontrol, until

PAGE = "docs/howto/deliver-files.md"
FORMAT = ("--format", "json")
"""The pipeline of the test has no format of its own."""
ADDRESS = "postgresql+psycopg://catalog@db/lake?connect_timeout=10"


def _log(settings: ClusterSettings, topic_factory: TopicFactory, directory: Path) -> StepsMaker:
    maker = StepsMaker(settings, topic_factory)
    (directory / "kcontrol.toml").write_text(
        f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{maker.settings.prefix}"\n'
    )
    return maker


def replaced_address(text: str, path: Path) -> str:
    """With a catalog in a file."""
    assert ADDRESS in text
    return text.replace(ADDRESS, f"sqlite:///{path}/catalog.db").replace("/data", f"{path}/data")


def test_the_page_comes_true(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = _log(settings, topic_factory, tmp_path)
    for step in (1, 2):
        rows = [json.dumps({"customer": "ada", "orders": step, "amount": 1.25 * step}).encode()]
        maker.step(step, {"totals": {0: rows}})
    begin, catalog, shown = (each for each in blocks_of(PAGE) if each.rule == "run by")
    here = str(tmp_path / "data")
    make_catalog(tmp_path)
    (tmp_path / catalog.title).write_text(replaced_address(catalog.text, tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))

    def replaced(text: str) -> str:
        return text.replace("/data", here).replace("deliver orders", f"deliver {PIPELINE}")

    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                KcontrolProcess(
                    *shlex.split(replaced(line))[1:], *FORMAT, log=tmp_path / str(n), cwd=tmp_path
                )
            )
            for n, line in enumerate(begin.text.splitlines())
        ]

        said = ""

        def told() -> bool:
            nonlocal said
            said = run_kcontrol("status", PIPELINE, cwd=tmp_path).stdout
            return missing(replaced(shown.text), said) is None

        def now() -> str:
            return "\n".join((said, *(each.text() for each in processes)))

        until(told, "kcontrol status shows what the page does", 240, now)
        assert [each.terminate() for each in processes] == [0, 0, 0]
    for kind, name in (("delta", "totals"), ("parquet", "archive")):
        assert steps_of(kind, tmp_path / "data" / name) == [1, 2]
    assert iceberg_steps(tmp_path, catalog="lake") == [1, 2]


@pytest.mark.parametrize(
    ("to", "more", "code", "sentence"),
    [
        (
            "delta://data",
            (),
            ConfigurationError,
            "give the whole path of a directory, such as delta:///data/totals",
        ),
        (
            "parquet:///x",
            ("--mode", "upsert"),
            ConfigurationError,
            "--mode says nothing to a directory of Parquet",
        ),
        ("iceberg://lake/totals", (), ConfigurationError, "and a table, such as iceberg://lake/shop.totals"),
        (
            "delta://s3://lake/totals",
            (),
            ConfigurationError,
            "writes Delta Lake and Parquet to file systems only",
        ),
        ("iceberg://lake/shop.totals", (), ConfigurationError, "pyiceberg knows no catalog 'lake'"),
        (
            "iceberg://lake/a.b",
            ("--key", "id"),
            ConfigurationError,
            "--key says nothing to a table of Iceberg",
        ),
        ("delta:///x", ("--create", "id BIGNIT"), ConfigurationError, "'BIGNIT' is no type"),
        ("delta:///dev/null/x", ("--create", "id INT"), DeliveryHaltedError, "/dev/null/x: "),
        (
            "parquet:///dev/null/x",
            ("--create", "id INT"),
            DeliveryHaltedError,
            "/dev/null/x: Not a directory",
        ),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    settings: ClusterSettings,
    topic_factory: TopicFactory,
    tmp_path: Path,
    to: str,
    more: tuple[str, ...],
    code: type,
    sentence: str,
) -> None:
    _log(settings, topic_factory, tmp_path)
    asked = ("deliver", PIPELINE, "--to", to, "--output", "totals", *FORMAT, *more)
    ended = run_kcontrol(*asked, cwd=tmp_path)
    assert ended.returncode == code.exit_code, ended.stderr
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr
