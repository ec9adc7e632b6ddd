"""Environments on a host: for each set of requirements one, with all that kcontrol's own has, made once and used by every
package that requires the same.

One is a venv that shows the agent's own libraries behind its own, so that nothing is installed twice, and none of the
agent's may be wanted in another version. It lies in a folder of its own and counts once its last file, `made`, is there; what
was not completed is made again elsewhere, as whoever was making it may still be at it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import psutil

from kcontrol.apps.agent.requirements import PinnedLibrary, is_version
from kcontrol.errors import ConfigurationError

_log = logging.getLogger("kcontrol.agent")

TIMEOUT_S = 900.0
"""For one to be made."""
MAX_ENVIRONMENTS = 10
"""Kept on a host, besides those in which something runs."""
SPARED_S = 3_600.0
"""One that was wanted so lately is not deleted."""
_MADE = "made"
_SAID_CHARACTERS = 1_000
_SECRET = re.compile(r"://[^/\s@]*@")


class HostEnvironments:
    """Of one agent. python: the interpreter whose libraries are shown. most: so many are kept."""

    def __init__(
        self,
        folder: Path,
        most: int = MAX_ENVIRONMENTS,
        timeout_s: float = TIMEOUT_S,
        python: str = sys.executable,
    ) -> None:
        self._folder, self._most, self._timeout_s, self._python = folder, most, timeout_s, python
        self._own = own_libraries()
        self._making: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()

    def interpreter(self, libraries: Sequence[PinnedLibrary]) -> Path | None:
        """The Python that has them; None while it is being made.

        Raises ConfigurationError: it can't be made. The next call tries again.
        """
        name = self._name(libraries)
        making = self._making.get(name)
        if making is not None and not making.done():
            return None
        if making is not None:
            del self._making[name]
            making.result()
        made = self._find(name)
        if made is None:
            self._making[name] = asyncio.create_task(self._make(name, libraries))
            return None
        os.utime(made / _MADE)
        return _python_of(made)

    def _name(self, libraries: Sequence[PinnedLibrary]) -> str:
        """Another version of Python, of kcontrol or of any of its libraries makes another one."""
        lines = [sys.version, self._python, *self._own, "--", *(one.line for one in libraries)]
        return sha256("\n".join(lines).encode()).hexdigest()[:24]

    def _find(self, name: str) -> Path | None:
        return next((file.parent for file in sorted(self._folder.glob(f"{name}-*/{_MADE}"))), None)

    # --- making one ---------------------------------------------------------------------------------------

    async def _make(self, name: str, libraries: Sequence[PinnedLibrary]) -> None:
        async with self._turn:
            folder = self._folder / f"{name}-{uuid4().hex[:8]}"
            _log.info("makes the environment %s, of %d requirements", folder, len(libraries))
            await asyncio.to_thread(self._tidy_up)
            try:
                async with asyncio.timeout(self._timeout_s):
                    await self._build(folder, libraries)
            except TimeoutError as error:
                raise self._failed(libraries, f"it took more than {self._timeout_s:g} s") from error
            except OSError as error:
                raise self._failed(libraries, str(error)) from error
            finally:
                if not (folder / _MADE).exists():
                    shutil.rmtree(folder, ignore_errors=True)

    async def _build(self, folder: Path, libraries: Sequence[PinnedLibrary]) -> None:
        if find_spec("pip") is None:
            raise self._failed(
                libraries, f"{self._python} has no pip: install it (python -m ensurepip) beside kcontrol"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        code, said = await _run(self._python, "-m", "venv", "--without-pip", str(folder))
        if code:
            raise self._failed(libraries, said)
        _show_own_libraries(folder)
        asked, own = folder / "requirements.txt", folder / "own-libraries.txt"
        asked.write_text("".join(f"{one.line}\n" for one in libraries), encoding="utf-8")
        own.write_text("".join(f"{one}\n" for one in self._own), encoding="utf-8")
        code, said = await _run(
            *(self._python, "-m", "pip", "--python", str(_python_of(folder)), "install"),
            *("--no-input", "--disable-pip-version-check", "--requirement", str(asked)),
            *("--constraint", str(own)),
        )
        if code:
            raise self._failed(libraries, said)
        (folder / _MADE).touch()

    def _failed(self, libraries: Sequence[PinnedLibrary], why: str) -> ConfigurationError:
        wanted = ", ".join(one.requirement for one in libraries)
        shown = wanted if len(wanted) <= _SAID_CHARACTERS else f"{wanted[:_SAID_CHARACTERS]}..."
        return ConfigurationError(f"no environment with {shown} can be made on this host: {why}")

    # --- keeping some -------------------------------------------------------------------------------------

    def _tidy_up(self) -> None:
        """Delete those that were not wanted for longest, and what nobody completed, but nothing that is in use."""
        wanted_s = {folder: _wanted_s(folder) for folder in self._folder.glob("*-*")}
        newest = sorted(wanted_s, key=lambda folder: wanted_s[folder], reverse=True)
        made = [folder for folder in newest if (folder / _MADE).exists()]
        kept = {*made[: self._most - 1], *_in_use(self._folder)}
        for folder in newest:
            if folder not in kept and time.time() - wanted_s[folder] > SPARED_S:
                _log.info("deletes the environment %s", folder)
                shutil.rmtree(folder, ignore_errors=True)


def own_libraries() -> list[str]:
    """All that this process can import, as `name==version`."""
    found: dict[str, str] = {}
    for one in distributions():
        name, version = one.metadata["Name"], one.version
        if name and is_version(version):
            found.setdefault(name, version)
    return sorted(f"{name}=={version}" for name, version in found.items())


def _python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def _show_own_libraries(folder: Path) -> None:
    """Behind what is in the environment; with what these folders name themselves, as those of packages that are edited."""
    [libraries] = folder.glob("lib/python*/site-packages")
    own = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    lines = ["import site", *(f"site.addsitedir({path!r})" for path in own)]
    (libraries / "kcontrol-agent.pth").write_text("; ".join(lines) + "\n", encoding="utf-8")


def _wanted_s(folder: Path) -> float:
    """When it was wanted last, by the wall clock."""
    with suppress(OSError):
        return (folder / _MADE).stat().st_mtime
    with suppress(OSError):
        return folder.stat().st_mtime
    return 0.0


def _in_use(folder: Path) -> set[Path]:
    """Environments of which a process of this host knows."""
    found, below = set(), f"{folder}{os.sep}"
    for process in psutil.process_iter(["cmdline"]):
        for argument in process.info["cmdline"] or ():
            if argument.startswith(below):
                found.add(folder / Path(argument.removeprefix(below)).parts[0])
    return found


async def _run(*command: str) -> tuple[int, str]:
    """Its exit code, and what it said was wrong. Whoever does not wait for it any longer ends it, with all that it has
    started."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        said, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.returncode or 0, _what_was_wrong(said.decode(errors="replace"))


def _what_was_wrong(said: str) -> str:
    """The lines that pip marks as errors, else the last one; without what addresses may have of secrets."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    wrong = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")] or lines[-1:]
    return _SECRET.sub("://", "; ".join(wrong) or "it said nothing")[:_SAID_CHARACTERS]
