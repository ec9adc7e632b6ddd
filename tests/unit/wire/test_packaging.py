"""The wheel holds what is no Python: the schemas, which live outside of `kcontrol/` in
the repository, and the Console."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.patience import HANG_S

ROOT = Path(__file__).parents[3]
SOURCES = ("kcontrol", "schemas", "pyproject.toml", "setup.py", "README.md", "LICENSE")
COUNT = """
import kcontrol, sys
from kcontrol.adapters.http.console_pages import assets
from kcontrol.wire.schemas import current_schemas, released_schemas
assert kcontrol.__file__.startswith(sys.argv[1]), kcontrol.__file__
print(*sorted(current_schemas()), *sorted(released_schemas()), *sorted(assets()))
"""


def test_a_wheel_brings_its_schemas_and_the_console(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", build, str(tmp_path)],
        check=True,
        timeout=2 * HANG_S,
        cwd=source,
        stdout=subprocess.DEVNULL,
    )
    [wheel] = tmp_path.glob("*.whl")
    found = subprocess.run(
        [sys.executable, "-c", COUNT, str(wheel)],
        check=True,
        timeout=HANG_S,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(wheel)},
    )
    records = sorted(file.stem for file in (ROOT / "schemas").glob("*.avsc"))
    console = ROOT / "kcontrol" / "adapters" / "http" / "console"
    pages = sorted(file.relative_to(console).as_posix() for file in console.rglob("*") if file.is_file())
    assert found.stdout.split() == [*records * 2, *pages]
