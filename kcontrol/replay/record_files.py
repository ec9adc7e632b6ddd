"""The records of a replay as files: JSON lines for each step and output, and the
boundary of each step beside them.

A file has its name only once it is complete: until then, and after a crash, it ends in `.partial`.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

from kcontrol.core.model import StepBoundary
from kcontrol.errors import ConfigurationError, KcontrolError
from kcontrol.replay.delivery import ReplayedStep
from kcontrol.replay.record_text import record_json
from kcontrol.wire.json import to_json_line

_PARTIAL = ".partial"


def records_file(step: int, output: str) -> str:
    """The name of the file with the records of one step and output."""
    return f"step-{step:08}.{output}.jsonl"


def boundary_file(step: int) -> str:
    """The name of the file with the boundary of a step."""
    return f"step-{step:08}.json"


class RecordFiles:
    """A destination that writes to one directory, which it makes.

    limit: of records of one step, over all its outputs; None: all. overwrite: the directory may hold
    something; files of the same name are replaced, others stay. Raises ConfigurationError when the directory
    can't be used.
    """

    def __init__(self, directory: Path, limit: int | None = None, overwrite: bool = False) -> None:
        self._directory = directory
        self._limit = limit
        self._written: dict[int, int] = {}
        """Of each step that is not complete: how many of its records are in the files."""
        try:
            directory.mkdir(parents=True, exist_ok=True)
            filled = any(directory.iterdir())
        except OSError as error:
            raise ConfigurationError(f"the output directory {directory} can't be used: {error}") from error
        if filled and not overwrite:
            raise ConfigurationError(
                f"the output directory {directory} is not empty: give another one, or --overwrite to "
                "replace files in it"
            )

    def deliver(self, step: ReplayedStep) -> int:
        """Write one node's records of a step; the last node's complete its files. See `Destination.deliver`.

        Raises KcontrolError when the disk does not take them.
        """
        try:
            left_out = self._write(step)
            if step.last_node:
                self._complete(step.boundary)
        except OSError as error:
            raise KcontrolError(
                f"step {step.boundary.step}: its records can't be written to {self._directory}: {error}"
            ) from error
        return left_out

    def close(self) -> None:
        """Delete the files of steps that were not completed."""
        for path in self._directory.glob(f"*{_PARTIAL}"):
            if any(path.name.startswith(f"step-{step:08}.") for step in self._written):
                path.unlink()

    def _write(self, step: ReplayedStep) -> int:
        boundary = step.boundary
        begun = boundary.step in self._written
        written, left_out = self._written.setdefault(boundary.step, 0), 0
        with ExitStack() as stack:
            files: dict[str, TextIO] = {
                output: stack.enter_context(self._partial(name).open("a" if begun else "w", encoding="utf-8"))
                for output, name in _names(boundary).items()
            }
            for record in step.records:
                if self._limit is not None and written >= self._limit:
                    left_out += 1
                    continue
                files[record.output].write(record_json(boundary.step, record) + "\n")
                written += 1
        self._written[boundary.step] = written
        return left_out

    def _complete(self, boundary: StepBoundary) -> None:
        name = boundary_file(boundary.step)
        self._partial(name).write_text(to_json_line(boundary) + "\n", encoding="utf-8")
        for complete in (*_names(boundary).values(), name):
            self._partial(complete).replace(self._directory / complete)
        del self._written[boundary.step]

    def _partial(self, name: str) -> Path:
        return self._directory / (name + _PARTIAL)


def _names(boundary: StepBoundary) -> dict[str, str]:
    """By output of the step, also of those that it wrote nothing to."""
    return {layout.output: records_file(boundary.step, layout.output) for layout in boundary.layout.outputs}
