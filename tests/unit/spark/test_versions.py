"""A version that kcontrol does not work with is one sentence at the start."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import kcontrol
from kcontrol.adapters.java import MINIMUM_VERSION
from kcontrol.adapters.spark.internals import SPARK_VERSION, check_version
from kcontrol.errors import SparkSettingError

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_another_spark_is_refused() -> None:
    check_version()
    check_version("4.3.7")
    for other in ("4.1.0", "4.4.0", "3.5.1", "5.0.0"):
        with pytest.raises(
            SparkSettingError, match=rf"PySpark is of version {re.escape(other)}; kcontrol needs 4\.3"
        ):
            check_version(other)


def test_an_older_python_is_refused() -> None:
    kcontrol.check_python((3, 11, 0))
    with pytest.raises(ImportError, match=r"kcontrol needs Python 3\.11 or newer; this is 3\.10\.4"):
        kcontrol.check_python((3, 10, 4))


def test_code_package_and_readme_name_the_same_versions_and_licence() -> None:
    readme = (ROOT / "README.md").read_text()
    oldest, spark = (".".join(map(str, each)) for each in (kcontrol.OLDEST_PYTHON, SPARK_VERSION))
    assert PROJECT["requires-python"] == f">={oldest}"
    assert f"pyspark>={spark},<{SPARK_VERSION[0]}.{SPARK_VERSION[1] + 1}" in PROJECT["dependencies"]
    for row in (
        f"| Python | {oldest} or newer",
        f"| Java | {MINIMUM_VERSION} or newer",
        f"| Spark | {spark} |",
    ):
        assert row in readme
    assert (PROJECT["license"], PROJECT["license-files"]) == ("Apache-2.0", ["LICENSE"])
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()
