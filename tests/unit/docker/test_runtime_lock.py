"""What runs in production imports nothing but what docker/runtime.lock installs: kcontrol, and
the workers that Spark starts.

A development environment holds more, so a dependency that is missing is not missed here by itself.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]

IMPORTING = """
import importlib, importlib.abc, importlib.metadata, pkgutil, re, sys

installed = set(sys.argv[1].split(","))

def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()

class OnlyInstalled(importlib.abc.MetaPathFinder):
    def __init__(self):
        self.owners = importlib.metadata.packages_distributions()

    def find_spec(self, name, path=None, target=None):
        owners = self.owners.get(name.partition(".")[0], [])
        if "." not in name and owners and not any(plain(owner) in installed for owner in owners):
            raise ModuleNotFoundError(f"{name} is not installed there, being of {owners}", name=name)
        return None

sys.meta_path.insert(0, OnlyInstalled())
import kcontrol, pyspark.sql.streaming, pyspark.sql.worker

names = [found.name for found in pkgutil.walk_packages(kcontrol.__path__, "kcontrol.") if not found.name.endswith("__main__")]
for package in (pyspark.sql.streaming, pyspark.sql.worker):
    names += [found.name for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
names += ["pyspark.worker", "pyspark.daemon", "pyspark.sql.pandas.serializers", "pyspark.sql.pandas.group_ops"]
for name in names:
    importlib.import_module(name)
print(len(names))
"""


def test_nothing_else_is_imported() -> None:
    lock = (REPOSITORY / "docker" / "runtime.lock").read_text(encoding="utf-8")
    installed = {name.lower() for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, re.MULTILINE)} | {
        "kcontrol"
    }
    assert {"pyspark", "pyarrow"} <= installed
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTING, ",".join(sorted(installed))],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=REPOSITORY,
    )
    assert ran.returncode == 0, ran.stderr[-3_000:]
    assert int(ran.stdout) > 200
