"""Environments that a host makes for what packages require, out of files that are here.

Each takes the real pip some seconds, so that only one of them is made by default.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.logs.cluster_packages import SignedPackage
from kcontrol.apps.agent.environments import HostEnvironments
from kcontrol.apps.agent.nodes import NodeCommands
from kcontrol.apps.agent.packages import HostPackages
from kcontrol.apps.agent.packing import pack
from kcontrol.apps.agent.requirements import pinned
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.packages import PACKAGE, CodePackage
from tests.support.wheels import library
from tests.unit.agent.test_agent_parts import PLACED, UNIT, job

TIDES = pinned(b"tides==1.0", "it")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where the hosts' pip looks."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    library(folder, "tides", "1.0", "HIGH = 12\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def python_of(environments: HostEnvironments, requirements: str) -> Path:
    async def make() -> Path:
        while (found := environments.interpreter(pinned(requirements.encode(), "it"))) is None:
            await asyncio.wait(environments._making.values())
        return found

    return asyncio.run(make())


def said_by(python: Path, code: str) -> str:
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.heavy
def test_it_has_what_is_required_beside_all_that_the_agent_has_and_is_made_once(
    shelf: Path, tmp_path: Path
) -> None:
    own = version("psutil")
    wanted = f"# what it needs\ntides==1.0\npsutil=={own}\n"
    python = python_of(HostEnvironments(tmp_path / "made"), wanted)
    shown = "import tides, kcontrol, psutil; print(tides.HIGH, kcontrol.__file__, psutil.__file__)"
    high, kcontrol_file, psutil_file = said_by(python, shown).split()
    assert high == "12"
    assert [kcontrol_file, psutil_file] == said_by(
        Path(sys.executable), "import kcontrol, psutil; print(kcontrol.__file__, psutil.__file__)"
    ).split()
    again = HostEnvironments(tmp_path / "made").interpreter(
        pinned(f"psutil=={own}\ntides==1.0".encode(), "it")
    )
    assert again == python, "in another life of the agent, and for another package that requires the same"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("requirements", "why"),
    [
        (
            "tides==2.0",
            "no environment with tides==2.0 can be made on this host: .*No matching distribution found",
        ),
        ("psutil==0.0.1", "psutil==0.0.1"),
    ],
)
def test_why_it_can_not_be_made_is_one_sentence(
    shelf: Path, tmp_path: Path, requirements: str, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why) as found:
        python_of(HostEnvironments(tmp_path / "made"), requirements)
    assert "\n" not in str(found.value)
    assert list((tmp_path / "made").iterdir()) == [], "nothing is left of it"


def test_one_that_takes_too_long_is_given_up(shelf: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"it took more than 0\.01 s"):
        python_of(HostEnvironments(tmp_path / "made", timeout_s=0.01), "tides==1.0")


def made(folder: Path, name: str, wanted_s: float, *, whole: bool = True) -> Path:
    """What one looks like from outside."""
    found = folder / name
    found.mkdir(parents=True)
    if whole:
        (found / "made").touch()
        os.utime(found / "made", (wanted_s, wanted_s))
    os.utime(found, (wanted_s, wanted_s))
    return found


@contextmanager
def running(python: Path) -> Iterator[None]:
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    with subprocess.Popen([python, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield
        process.communicate(b"\n")


def test_those_that_were_not_wanted_for_longest_go_but_not_those_in_use(tmp_path: Path) -> None:
    environments = HostEnvironments(tmp_path, most=3)
    names = [made(tmp_path, f"e{n}-x", 1_000 + n) for n in range(5)]
    half = made(tmp_path, "half-x", 2_000, whole=False)
    with running(names[0] / "bin" / "python"):
        environments._tidy_up()
    assert sorted(tmp_path.iterdir()) == [names[0], names[3], names[4]], "there is room for one more"
    assert not half.exists()


# --- what a package says ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ()),
        ("# none\n\n", ()),
        ("b==2\na==1.0 # because", ("a==1.0", "b==2")),
        ("a[x]==1 ; python_version > '3'", ('a[x]==1; python_version > "3"',)),
        (f"a==1 \\\n  --hash=sha256:{'0' * 64}\n", (f"a==1 --hash=sha256:{'0' * 64}",)),
    ],
)
def test_requirements_are_names_and_versions(text: str, lines: tuple[str, ...]) -> None:
    assert tuple(one.line for one in pinned(text.encode(), "it")) == lines


@pytest.mark.parametrize(
    "line",
    [
        *(
            "a",
            "a>=1",
            "a==1.*",
            "a==1,!=2",
            "a===1",
            "a @ https://there/a.whl",
            "./a.whl",
            "-e .",
            "-r more.txt",
        ),
        *(
            "--index-url https://there",
            "a==1 --index-url https://there",
            "a==1 --hash=md5:00",
            "git+https://there",
        ),
    ],
)
def test_anything_else_is_refused_and_so_never_reaches_pip(line: str) -> None:
    with pytest.raises(ConfigurationError, match="it, requirement 2: "):
        pinned(f"b==1\n{line}\n".encode(), "it")


def packed(folder: Path, requirements: str) -> CodePackage:
    folder.mkdir(exist_ok=True)
    (folder / "flights.py").write_text("")
    (folder / "needs.txt").write_text(requirements)
    return pack(folder / "flights.py", requirements=folder / "needs.txt")


def test_a_package_that_requires_libraries_is_run_once_its_environment_is_there(
    shelf: Path, tmp_path: Path
) -> None:
    code, plain = packed(tmp_path / "own", "tides==1.0"), packed(tmp_path / "own", "# none")
    assert code.manifest.requirements == "needs.txt"
    host = HostPackages(ClusterSettings(bootstrap_servers="nobody:1"), tmp_path / "packages")
    host._known = {one.name: SignedPackage(one) for one in (code, plain)}
    environments = HostEnvironments(tmp_path / "made")
    commands = NodeCommands(None, "b:1", tmp_path / "work", host, environments)
    without = NodeCommands(None, "b:1", tmp_path / "work", host)

    async def play() -> None:
        assert commands(job(PACKAGE + code.name), UNIT, PLACED) is None
        await asyncio.wait(environments._making.values())
        command = commands(job(PACKAGE + code.name), UNIT, PLACED)
        python = str(environments.interpreter(TIDES))
        assert command is not None
        assert f"PYSPARK_PYTHON={python}" in command, "Spark's workers have it, too"
        assert command[command.index("-m") - 1] == python
        direct = commands(job(PACKAGE + plain.name), UNIT, PLACED)
        assert direct is not None
        assert direct[direct.index("-m") - 1] == sys.executable
        with pytest.raises(ConfigurationError, match="this agent makes no environments"):
            without(job(PACKAGE + code.name), UNIT, PLACED)

    asyncio.run(play())


def test_requirements_that_can_not_be_met_everywhere_are_not_packed(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="requirement 1: 'tides' has to be `tides==VERSION`"):
        packed(tmp_path / "own", "tides")
    (tmp_path / "far.txt").write_text("tides==1.0")
    for file in (tmp_path / "far.txt", tmp_path / "own" / "not-there"):
        with pytest.raises(ConfigurationError, match="must be a file below"):
            pack(tmp_path / "own" / "flights.py", requirements=file)


@pytest.mark.parametrize(
    ("name", "text"), [("kcontrol.toml", ""), ("release", "-----BEGIN OPENSSH PRIVATE KEY-----\n")]
)
def test_secrets_stay_where_they_are(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "flights.py").write_text("")
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError, match=f"{name} may hold secrets"):
        pack(tmp_path / "flights.py", [tmp_path])
