"""Making the class archive: a try that leaves none is followed by another, and the last one says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.session import class_archive
from kcontrol.errors import JavaError

_LEAVES_ONE_THE_SECOND_TIME = """
import pathlib, sys
counter = pathlib.Path({counter!r})
tries = int(counter.read_text()) if counter.exists() else 0
counter.write_text(str(tries + 1))
if tries:
    pathlib.Path(sys.argv[1]).write_text("classes")
"""
_FAILS = "raise SystemExit('no more memory')"


@pytest.fixture
def trained_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module to be written, which is run in place of the training; the archive lies beside it."""
    module = tmp_path / "training_of_a_test.py"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(class_archive, "TRAINING_MODULE", module.stem)
    monkeypatch.setattr(class_archive, "archive_path", lambda _java: tmp_path / "cache" / "spark.jsa")
    return module


def test_a_try_that_leaves_no_archive_is_followed_by_another(trained_by: Path, tmp_path: Path) -> None:
    trained_by.write_text(_LEAVES_ONE_THE_SECOND_TIME.format(counter=str(tmp_path / "tries")))
    made = class_archive.make_archive()
    assert (made, made.read_text()) == (tmp_path / "cache" / "spark.jsa", "classes")
    assert (tmp_path / "tries").read_text() == "2"
    assert list(made.parent.iterdir()) == [made]


def test_when_no_try_leaves_one_it_is_said_how_the_last_one_ended(trained_by: Path, tmp_path: Path) -> None:
    trained_by.write_text(_FAILS)
    with pytest.raises(JavaError, match=r"ended with 1 and said: no more memory"):
        class_archive.make_archive()
    assert list((tmp_path / "cache").iterdir()) == []


def test_an_archive_of_another_training_is_made_anew_and_deleted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(class_archive, "cache_home", lambda: tmp_path)
    java = find_java()
    path = class_archive.archive_path(java)
    of_before = [path.with_stem(path.stem.rpartition("-")[0]), path.with_stem(f"{path.stem}0")]
    other_spark = path.with_stem("spark-4.3.0-another")
    for each in (*of_before, other_spark):
        each.write_bytes(b"classes")
    assert class_archive.start_options(java) == ""
    module = tmp_path / "training_of_a_test.py"
    module.write_text("import pathlib, sys; pathlib.Path(sys.argv[1]).write_text('classes')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(class_archive, "TRAINING_MODULE", module.stem)
    assert class_archive.make_archive() == path
    assert sorted(tmp_path.glob("*.jsa")) == sorted([path, other_spark])
