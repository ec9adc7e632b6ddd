"""What the commits of a table of Delta Lake say of the last step in it: its print, and whether the table has it still.

RESTORE takes rows back and leaves the numbers of transactions as they are, so a table that was taken back says that it has
steps whose rows are gone. Its commit is the one sign of that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

STEP, PRINT, PIPELINE, OUTPUT = "kcontrol.step", "kcontrol.print", "kcontrol.pipeline", "kcontrol.output"
"""In the information of each commit that adds a step."""
LOOKED_AT = 100
"""So many of the newest commits are looked through first for that of the last step; then all that are there."""
_RESTORE, _UNKNOWN = "RESTORE", -1


class StepCommit:
    """Of the last step of one output."""

    def __init__(self, pipeline: str, output: str) -> None:
        self._pipeline, self._output = pipeline, output
        self.forget()

    def forget(self) -> None:
        """All is to be looked at again."""
        self.print = ""
        """Of the step; '' if its commit is not there any more."""
        self._step = self._version = self._looked = _UNKNOWN
        self._restored: dict[int, int] = {}
        """To which version, by that of the commit which did so; of those behind the step's."""

    def added(self, step: int, its_print: str, version: int) -> None:
        """A step that was added by this process, by the commit of this version."""
        self._step, self.print = step, its_print
        self._version = self._looked = version
        self._restored = {}

    def is_there(self, table: Any, step: int) -> bool:
        """Whether the table, as it was read, has the rows of its last step, which is this one. Looks at commits that it has not
        seen."""
        now = int(table.version())
        if step != self._step:
            self.forget()
            self._search(table, step)
        elif now > self._looked:
            for commit in table.history(now - self._looked):
                self._note(commit)
        self._looked = now
        return self._has(now)

    def _search(self, table: Any, step: int) -> None:
        self._step = step
        for commit in _newest_first(table):
            if self._is_of(commit, step):
                self.print, self._version = str(commit.get(PRINT, "")), int(commit["version"])
                return
            self._note(commit)
            # It lies before all that are there.
            self._version = int(commit["version"])

    def _is_of(self, commit: Mapping[str, Any], step: int) -> bool:
        found = (commit.get(STEP), commit.get(PIPELINE), commit.get(OUTPUT))
        return found == (step, self._pipeline, self._output)

    def _note(self, commit: Mapping[str, Any]) -> None:
        if commit.get("operation") == _RESTORE:
            self._restored[int(commit["version"])] = _target(commit)

    def _has(self, version: int) -> bool:
        """What a version has is what the version had to which the last RESTORE before it went back."""
        while (last := max((each for each in self._restored if each <= version), default=None)) is not None:
            version = self._restored[last]
        return version >= self._version


def _newest_first(table: Any) -> Iterator[Mapping[str, Any]]:
    newest = table.history(LOOKED_AT)
    yield from newest
    if len(newest) == LOOKED_AT:
        yield from table.history()[LOOKED_AT:]


def _target(commit: Mapping[str, Any]) -> int:
    """Of a RESTORE; one to a time does not say which version that was."""
    try:
        return int(commit["operationParameters"]["version"])
    except (KeyError, TypeError, ValueError):
        return _UNKNOWN
