"""What the image is made of: locked packages of the versions that are tested, and files that the build is let
see."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.unit.docker.reading import DOCKER, ROOT, read

DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LEFT_OUT = ("pytest", "mypy", "ruff", "playwright", "uv", "setuptools")


def locked(path: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """By package: its version and the hashes of its files."""
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for entry in re.split(r"^(?=[A-Za-z0-9])", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
        if head := re.match(r"(\S+)==(\S+)", entry):
            found[head[1].lower()] = (head[2], frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", entry)))
    return found


def name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9_.-]+", requirement)
    assert match is not None
    return match[0].lower()


@pytest.mark.parametrize("lock", ["runtime.lock", "build.lock"])
def test_the_image_has_the_versions_that_are_tested_and_every_file_is_known(lock: str) -> None:
    everything, packages = locked(ROOT / "requirements.lock"), locked(DOCKER / lock)
    assert packages
    assert {name: everything.get(name) for name in packages} == packages
    assert all(hashes for _, hashes in packages.values())


def test_the_image_has_what_runs_and_nothing_that_only_tests_need() -> None:
    packages = locked(DOCKER / "runtime.lock").keys()
    assert {name_of(each) for each in PROJECT["project"]["dependencies"]} <= packages
    assert not packages & set(LEFT_OUT)
    assert locked(DOCKER / "build.lock").keys() == {
        name_of(each) for each in PROJECT["dependency-groups"]["build"]
    }


def test_every_package_is_installed_by_its_hash() -> None:
    installs = re.findall(r"pip install (.*?)(?:&&|$)", DOCKERFILE, re.MULTILINE)
    assert len(installs) == 3
    assert all("--require-hashes" in each or "--no-deps" in each for each in installs)


def test_the_build_is_let_see_what_it_copies_and_no_more() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set()
    for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE):
        if not line.startswith("--from"):
            copied |= set(line.split()[:-1])
    assert copied == allowed
    assert all((ROOT / each).exists() for each in copied)


def test_it_runs_as_nobody_in_particular_with_the_directories_that_compose_mounts() -> None:
    user = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)
    assert user == ["10001:10001"]
    assert "useradd --uid 10001" in DOCKERFILE
    made = re.search(r"install --directory --owner kcontrol --group kcontrol (.*)$", DOCKERFILE, re.MULTILINE)
    assert made is not None
    services = read(DOCKER / "compose.yaml")[0]["services"].values()
    ours = [
        each
        for service in services
        if "KCONTROL_IMAGE" in service["image"]
        for each in service.get("volumes", ())
    ]
    # A volume takes over the owner of the directory that it is mounted at; a missing one would be root's.
    volumes = {each.split(":")[1] for each in ours if "/" not in each.split(":")[0] and ":" in each}
    assert volumes
    assert volumes <= set(made[1].split())


def test_its_command_is_kcontrol() -> None:
    assert 'ENTRYPOINT ["/usr/bin/tini", "--", "kcontrol"]' in DOCKERFILE
    assert list(PROJECT["project"]["scripts"]) == ["kcontrol"]
