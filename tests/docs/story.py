"""Does what a page tells its reader to do: writes its files, runs its commands, and compares what they print.

Several pages may be one story: the later ones go on with the files, terminals and cluster of the earlier
ones. Nothing is put in the place of anything; only the ports that pages name are others, because those may be
taken.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from tests.docs.blocks import Block
from tests.docs.expected import alike, missing
from tests.docs.reading import read
from tests.support.patience import HANG_S
from tests.support.processes import KcontrolProcess, environment, until

COMMAND_TIMEOUT_S = 240.0
PRINTS_TIMEOUT_S = 180.0
END_TIMEOUT_S = HANG_S
_ENDED_BY_CTRL_C = (0, 130, -signal.SIGINT)


class Terminal(KcontrolProcess):
    """A command that goes on running; what it prints is told piece by piece."""

    def __init__(self, line: str, log: Path, env: Mapping[str, str], cwd: Path) -> None:
        super().__init__(log=log, env=env, cwd=cwd)
        self._command = ["bash", "-e", "-c", f"exec {line}"]
        self.line = line
        self._told = 0

    def prints(self, shown: str) -> None:
        """Wait until it has printed these lines, after those that were told before."""

        def printed() -> bool:
            self._check_alive(shown)
            return missing(shown, self._news()) is None

        until(printed, f"`{self.line}` prints what the page shows:\n{shown}", PRINTS_TIMEOUT_S, self.text)
        self._told += _length(shown, self._news())

    def end(self) -> None:
        """Ctrl-C, unless it has ended by itself. Fails unless that is a way for it to end."""
        assert self.process is not None
        if self.process.poll() is None:
            os.killpg(self.pid, signal.SIGINT)
        code = self.process.wait(END_TIMEOUT_S)
        assert code in _ENDED_BY_CTRL_C, f"`{self.line}` ended with {code}:\n{self.text()[-6000:]}"

    def _news(self) -> str:
        return "\n".join(self.text().splitlines()[self._told :])

    def _check_alive(self, shown: str) -> None:
        assert self.process is not None
        if self.process.poll() is not None and missing(shown, self._news()) is not None:
            raise AssertionError(
                f"`{self.line}` ended with {self.process.returncode} and printed:\n{self.text()[-6000:]}"
            )


def _length(shown: str, printed: str) -> int:
    """How many printed lines it takes to find all that is shown."""
    lines = printed.splitlines()
    return next(count for count in range(len(lines) + 1) if missing(shown, "\n".join(lines[:count])) is None)


class Story:
    """A directory, and the terminals that pages have opened in it. ports: by the number in the text, the one
    to use."""

    def __init__(self, directory: Path, ports: Mapping[str, str]) -> None:
        self.directory = directory / "tour"
        self.directory.mkdir()
        self._ports = ports
        self._terminals: dict[str, Terminal] = {}
        self._printed = ""
        self._env = {
            "PATH": f"{_programs(directory)}:{os.environ['PATH']}",
            "XDG_DATA_HOME": str(directory / "home"),
        }

    def __enter__(self) -> Story:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for terminal in reversed(self._terminals.values()):
            try:
                if kind is None:
                    terminal.end()
            finally:
                terminal.kill()

    def tell(self, blocks: Iterable[Block], scratch: Path) -> None:
        """Do what a page says, from its beginning to its end. scratch: for what is only read."""
        for block in blocks:
            try:
                self._do(block, scratch)
            except Exception as error:
                raise AssertionError(f"{block}: {error}") from error

    def _do(self, block: Block, scratch: Path) -> None:
        match block.rule, block.language:
            case "not run" | "run by", _:
                read(block, scratch)
            case "prints", _:
                self._compare(block)
            case "ends", "text":
                self._terminals.pop(block.argument).end()
            case "terminal", "bash":
                self._open(block)
            case "", "bash":
                self._run(block)
            case "", _ if block.title:
                (self.directory / block.title).write_text(self._text(block), encoding="utf-8")
            case "", "diff" | "text":
                read(block, scratch)
            case rule, language:
                raise AssertionError(
                    f"a story has no rule for {language!r} with {rule!r}: give it a title, or say not run"
                )

    def _text(self, block: Block) -> str:
        text = block.text
        for written, used in self._ports.items():
            text = text.replace(written, used)
        return text

    def _open(self, block: Block) -> None:
        line = shlex.join(shlex.split(self._text(block), comments=True))
        log = self.directory.parent / f"{block.argument}.log"
        terminal = self._terminals[block.argument] = Terminal(line, log, self._env, self.directory)
        terminal.start()

    def _run(self, block: Block) -> None:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", self._text(block)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env=environment(self._env), cwd=self.directory, timeout=COMMAND_TIMEOUT_S, check=False,
        )  # fmt: skip
        self._printed = done.stdout
        allowed = self._shown_code(block)
        assert done.returncode == allowed, (
            f"ended with {done.returncode} instead of {allowed}:\n{done.stdout[-6000:]}"
        )

    @staticmethod
    def _shown_code(block: Block) -> int:
        """The exit code that the page names in the command's comment, as `# exit code 2`; else 0."""
        _, found, after = block.text.partition("# exit code ")
        return int(after.split()[0]) if found else 0

    def _compare(self, block: Block) -> None:
        if block.argument:
            self._terminals[block.argument].prints(block.text)
            return
        line = missing(block.text, self._printed)
        assert line is None, (
            f"{line!r} ({alike(line or '')!r}) is not in what was printed:\n{self._printed[-6000:]}"
        )


def _programs(directory: Path) -> Path:
    """A directory with `kcontrol` and `python` of this environment, as an activated one has them."""
    folder = directory / "bin"
    folder.mkdir()
    for name, arguments in (("python", ""), ("kcontrol", "-m kcontrol.cli")):
        program = folder / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        program.chmod(0o755)
    return folder
