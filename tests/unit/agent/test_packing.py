"""What belongs to a pipeline's file, and what a host does with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.logs.cluster_packages import SignedPackage
from kcontrol.apps.agent.nodes import FILE, NodeCommands
from kcontrol.apps.agent.packages import HostPackages
from kcontrol.apps.agent.packing import pack
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.packages import PACKAGE, package_of
from tests.unit.agent.test_agent_parts import PLACED, UNIT, job


def folder(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def test_what_a_file_imports_from_beside_it_belongs_to_it(tmp_path: Path) -> None:
    folder(
        tmp_path,
        {
            "flights.py": "import os, pyspark.sql\nimport rules.late\nfrom helpers import one\nfrom deep import er\n",
            "helpers.py": "def one():\n    import lazily\n",
            "lazily.py": "",
            "rules/__init__.py": "",
            "rules/late.py": "from . import early\nfrom .. import shared\nfrom ..shared import x\n",
            "rules/early.py": "",
            "rules/unused.py": "",
            "shared.py": "",
            "deep/__init__.py": "",
            "deep/er.py": "",
            "other.py": "import what_nobody_has\n",
            "data/airports.csv": "a",
        },
    )
    package = pack(tmp_path / "flights.py")
    wanted = {"flights.py", "helpers.py", "lazily.py", "rules/__init__.py", "rules/late.py", "rules/early.py"}
    wanted |= {"shared.py", "deep/__init__.py", "deep/er.py"}
    assert {file.path for file in package.manifest.files} == wanted
    assert package.manifest.entry == "flights.py"
    more = pack(tmp_path / "flights.py", [tmp_path / "data"])
    assert {file.path for file in more.manifest.files} == wanted | {"data/airports.csv"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "import numpy\n\nimport what_nobody_has\n",
            "line 3: it imports 'what_nobody_has', which is neither below",
        ),
        ("def f():\n    from what_nobody_has.more import x\n", "line 2: it imports 'what_nobody_has.more'"),
        ("from ... import x\n", "line 1: what it imports lies outside of"),
        ("def f(:\n", "is no Python file"),
    ],
)
def test_what_the_hosts_would_not_find_is_named(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        pack(folder(tmp_path, {"flights.py": text}) / "flights.py")


def test_only_files_below_the_pipelines_own_folder_are_included(tmp_path: Path) -> None:
    root = folder(tmp_path / "own", {"flights.py": ""})
    folder(tmp_path, {"secret.txt": ""})
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    for path in (tmp_path / "secret.txt", root / "not-there", root / "link.txt"):
        with pytest.raises(ConfigurationError, match="must be a file or folder below"):
            pack(root / "flights.py", [path])
    with pytest.raises(ConfigurationError, match="is a link"):
        pack(root / "flights.py", [root])


# --- on a host ------------------------------------------------------------------------------------------------

CODE = package_of("flights.py", {"flights.py": b"import rules\n", "rules/__init__.py": b"", "a.csv": b"1"})


@pytest.fixture
def host(tmp_path: Path) -> HostPackages:
    found = HostPackages(ClusterSettings(bootstrap_servers="nobody:1"), tmp_path / "packages")
    found._known[CODE.name] = SignedPackage(CODE)
    return found


def test_what_runs_is_what_was_submitted_whatever_became_of_it_on_the_disk(host: HostPackages) -> None:
    entry = host.entry(CODE)
    at_first = entry.stat().st_ino
    assert host.entry(CODE) == entry
    assert entry.stat().st_ino == at_first, "nothing is unpacked twice"
    elsewhere = folder(host._folder.parent / "elsewhere", {"__init__.py": "raise SystemExit"})
    for damage in (
        "changed",
        "gone",
        "added",
        "linked",
        "a linked folder",
        "an empty folder",
        "a folder is a link",
        "a pipe",
    ):
        file = entry.parent / "rules" / "__init__.py"
        match damage:
            case "changed":
                file.chmod(0o644)
                file.write_text("import os")
            case "gone":
                file.unlink()
            case "added":
                (entry.parent / "os.py").write_text("")
            case "linked":
                file.unlink()
                file.symlink_to(entry)
            case "a linked folder":
                (entry.parent / "numpy").symlink_to(elsewhere)
            case "an empty folder":
                (entry.parent / "numpy" / "core").mkdir(parents=True)
            case "a folder is a link":
                entry.parent.rename(entry.parent.with_name("moved"))
                entry.parent.symlink_to(entry.parent.with_name("moved"))
            case "a pipe":
                os.mkfifo(entry.parent / "os.py")
        assert host.entry(CODE) == entry
        inside = {str(one.relative_to(entry.parent)): one for one in entry.parent.rglob("*")}
        assert set(inside) == {*CODE.contents, "rules"}, damage
        assert {path: inside[path].read_bytes() for path in CODE.contents} == CODE.contents, damage
        assert not entry.parent.is_symlink()
        assert not file.is_symlink()
    assert (elsewhere / "__init__.py").exists(), "what a link leads to stays"


def test_what_no_job_runs_is_forgotten(host: HostPackages) -> None:
    entry = host.entry(CODE)
    host.keep({CODE.name})
    assert entry.exists()
    host.keep(set())
    assert not entry.parent.exists()


@pytest.mark.parametrize("name", ["", "..", "0" * 63, "0" * 63 + "/", "A" * 64])
def test_a_name_that_is_none_is_refused(host: HostPackages, name: str) -> None:
    with pytest.raises(ConfigurationError, match="is no package"):
        host.package(name)


def test_an_agent_runs_only_what_it_was_told_that_it_may(host: HostPackages, tmp_path: Path) -> None:
    packaged, file = job(PACKAGE + CODE.name), job(f"{FILE}flights.py")
    folder(tmp_path / "files", {"flights.py": ""})
    only_files = NodeCommands(tmp_path / "files", "b:1", tmp_path / "work")
    only_packages = NodeCommands(None, "b:1", tmp_path / "work", host)
    with pytest.raises(ConfigurationError, match="runs no packages: start it with --packages"):
        only_files(packaged, UNIT, PLACED)
    with pytest.raises(ConfigurationError, match="runs packages only"):
        only_packages(file, UNIT, PLACED)
    with pytest.raises(ConfigurationError, match="runs packages only"):
        only_packages(job("anything"), UNIT, PLACED)
    command = only_packages(packaged, UNIT, PLACED)
    assert command is not None
    entry = tmp_path / "packages" / CODE.name / "flights.py"
    assert command[:3] == ("env", command[1], "PYTHONDONTWRITEBYTECODE=1")
    assert command[1].split(":")[0] == f"PYTHONPATH={entry.parent}"
    assert str(entry) in command
    only_packages.keep(set())
    assert not entry.exists()
