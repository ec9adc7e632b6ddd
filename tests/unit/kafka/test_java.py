"""The Java that is accepted, and what is said about every other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcontrol.adapters.java import find_java
from kcontrol.errors import JavaError


def _java(directory: Path, says: str, exit_code: int = 0) -> Path:
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {exit_code}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "17-ea"', 17),
    ],
)
def test_a_new_enough_java_is_taken_from_java_home(tmp_path: Path, says: str, version: int) -> None:
    program = _java(tmp_path, says)
    found = find_java({"JAVA_HOME": str(tmp_path), "PATH": "/nowhere"})
    assert (found.executable, found.version) == (program, version)


def test_without_java_home_it_is_taken_from_path(tmp_path: Path) -> None:
    program = _java(tmp_path, 'openjdk version "17.0.1"')
    assert find_java({"PATH": str(program.parent)}).executable == program


@pytest.mark.parametrize(
    ("says", "version"), [('java version "1.8.0_392"', 8), ('openjdk version "11.0.2" 2019-01-15', 11)]
)
def test_an_old_java_is_named_with_what_is_needed_and_how_to_set_it(
    tmp_path: Path, says: str, version: int
) -> None:
    program = _java(tmp_path, says)
    with pytest.raises(JavaError) as raised:
        find_java({"JAVA_HOME": str(tmp_path)})
    for part in (f"Java {version} ", str(program), "17", "set JAVA_HOME"):
        assert part in str(raised.value)


def test_no_java_at_all(tmp_path: Path) -> None:
    with pytest.raises(JavaError, match=r"No Java found.*set JAVA_HOME"):
        find_java({"PATH": str(tmp_path)})


def test_a_java_home_without_java_is_not_passed_over(tmp_path: Path) -> None:
    good = _java(tmp_path / "good", 'openjdk version "17.0.1"')
    with pytest.raises(JavaError, match=r"JAVA_HOME is .*no program bin/java"):
        find_java({"JAVA_HOME": str(tmp_path / "empty"), "PATH": str(good.parent)})


def test_a_java_that_fails_is_quoted(tmp_path: Path) -> None:
    _java(tmp_path, "Unable to locate a Java Runtime", exit_code=1)
    with pytest.raises(JavaError, match="it said: Unable to locate a Java Runtime"):
        find_java({"JAVA_HOME": str(tmp_path)})


def test_a_java_is_asked_once_until_it_is_another(tmp_path: Path) -> None:
    program = _java(tmp_path, 'openjdk version "17.0.1"')
    asked = tmp_path / "asked"
    program.write_text(program.read_text().replace("exit 0", f"echo once >> {asked}\nexit 0"))
    for _ in range(3):
        assert find_java({"JAVA_HOME": str(tmp_path)}).version == 17
    assert asked.read_text() == "once\n"
    program.write_text(program.read_text().replace("17.0.1", "21.0.1"))
    os.utime(program, ns=(1, 1))
    assert find_java({"JAVA_HOME": str(tmp_path)}).version == 21
