"""Which codec a process uses, and where compiled code may be kept."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kcontrol.errors import ConfigurationError
from kcontrol.wire.batches import codec, jit, warm
from tests.support.patience import HANG_S

WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "numba" else real(name, *rest)
import pyarrow as pa
from kcontrol.wire import batches
batches.warm()
print(batches.default_codec().name, batches.partition_of(pa.array([b"key", None]), 7).tolist())
"""


@pytest.fixture
def _fresh() -> None:
    codec.default_codec.cache_clear()


@pytest.mark.usefixtures("_fresh")
@pytest.mark.parametrize(
    ("wanted", "name"), [("", "compiled"), ("compiled", "compiled"), ("reference", "reference")]
)
def test_the_environment_chooses(monkeypatch: pytest.MonkeyPatch, wanted: str, name: str) -> None:
    monkeypatch.setenv(codec.CODEC_VARIABLE, wanted)
    warm()
    assert codec.default_codec().name == name
    codec.default_codec.cache_clear()


@pytest.mark.usefixtures("_fresh")
def test_an_unknown_codec_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(codec.CODEC_VARIABLE, "fast")
    with pytest.raises(
        ConfigurationError, match="KCONTROL_CODEC='fast': it must be 'compiled', 'reference' or unset"
    ):
        codec.default_codec()


def test_without_numba_the_reference_is_used() -> None:
    environment = {name: value for name, value in os.environ.items() if name != codec.CODEC_VARIABLE}
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    assert run.stdout.split(maxsplit=1)[0] == "reference"


def test_compiled_code_is_kept_only_where_nobody_else_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    directory = jit.private_cache_directory()
    assert directory is not None
    assert directory.stat().st_mode & 0o777 == 0o700
    assert jit.private_cache_directory() == directory

    directory.chmod(0o770)
    assert jit.private_cache_directory() is None

    directory.rmdir()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    directory.symlink_to(elsewhere)
    assert jit.private_cache_directory() is None


ANSWER = """
from numba import types
from kcontrol.wire.batches.jit import compiled

@compiled(types.int64(types.int64))
def double(number):
    return 2 * number

print(double(21))
"""


def test_an_account_without_a_home_and_a_read_only_install_still_keep_compiled_code(tmp_path: Path) -> None:
    module = tmp_path / "answer.py"
    module.write_text(ANSWER)
    # Files where directories are wanted: even the superuser can't write there.
    (tmp_path / "__pycache__").write_text("")
    (tmp_path / "home").write_text("")
    (tmp_path / "temporary").mkdir()
    home = {name: str(tmp_path / "home") for name in ("HOME", "XDG_CACHE_HOME")}
    environment = {**os.environ, **home, "TMPDIR": str(tmp_path / "temporary")}
    environment.pop("NUMBA_CACHE_DIR", None)

    run = subprocess.run(
        [sys.executable, str(module)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )

    assert (run.returncode, run.stdout) == (0, "42\n"), run.stderr
    assert list((tmp_path / "temporary").glob(f"kcontrol-numba-{os.getuid()}/**/*.nbi"))


def test_the_name_of_the_codec_is_known_without_loading_numba() -> None:
    """A node's own process asks for nothing else of it when it plans, and numba takes a second of a processor to load."""
    code = (
        "import sys, kcontrol.adapters.spark.query.as_read\n"
        "from kcontrol.wire.batches import default_codec_name\n"
        "print(default_codec_name(), 'numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=HANG_S
    )
    assert done.stdout.split() == ["compiled", "False"]
