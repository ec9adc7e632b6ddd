"""The node's working directory: Spark's checkpoint directories of all queries, per incarnation of the node.

`<root>/<pipeline>/node-N/inc-INC/history-H/<query>/{offsets,commits,state,...}`. An incarnation never writes
into another's directory: a zombie that wakes up late can only damage its own. A new incarnation is seeded
with hard links from the newest older one, which costs no copying (`linking`). Each beginning, from nothing or
from a checkpoint, gets a new history, because state stores of queries that have ended may still upload a
snapshot to where they were, and Spark refuses to begin in a directory that is not empty. A history is of one assignment of
shards to nodes, which `assignment.json` in it names.
`<inc-INC>/pins/step-S/<query>/...` holds what a checkpoint of step S needs (`pinning`) until it is saved,
whatever Spark deletes or a rollback undoes meanwhile. Which batch is which step is what Spark has planned (`batches`).
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from kcontrol.adapters.spark.state.batches import batch_of, numbered, step_of
from kcontrol.adapters.spark.state.formats import planned_ends
from kcontrol.adapters.spark.state.linking import fit_restored, link_pin, link_tree
from kcontrol.adapters.spark.state.pinning import LOGS, is_stray, needed_files
from kcontrol.errors import CheckpointError, ConfigurationError

_PREFIX = "inc-"
_HISTORY = "history-"
TABLE = ".sst"
AHEAD = "ahead"
"""In a node's directory: state that other nodes have, copied before it becomes this one's."""
_PINS = "pins"
_HIGHEST = "highest-step.json"
_ASSIGNMENT = "assignment.json"
_PIN_TRIES = 3
"""Spark may delete, while a pin is made, a file of it that a newer snapshot has made superfluous."""


class WorkDir:
    """The directory of one incarnation."""

    def __init__(
        self,
        root: Path,
        pipeline: str,
        node: int,
        incarnation: int,
        queries: Sequence[str],
        retained: int,
        assignment: int = 0,
    ) -> None:
        """retained: how many batches Spark keeps state for (`spark.sql.streaming.minBatchesToRetain`). assignment: number
        of the one by which the node runs."""
        self._assignment = assignment
        self._home = root / pipeline / f"node-{node}"
        self._incarnation = incarnation
        self._queries = tuple(queries)
        self.retained = retained
        self._steps: dict[tuple[Path, int], int] = {}
        """By query's directory and batch, which step that is, as far as it was looked up."""
        self.path = self._home / f"{_PREFIX}{incarnation}"

    def query_path(self, query: str) -> Path:
        """Spark's checkpoint location of one query."""
        return self._history() / query

    def _history(self) -> Path:
        return _newest_history(self.path)

    def prepare(self) -> None:
        """Make the directory, from the newest older incarnation's if there is one that was begun under this assignment;
        forget older incarnations, and all pins, then. One of another assignment stays until something was begun.

        Raises ConfigurationError when the file system does not allow it.
        """
        try:
            self._prepare()
        except OSError as error:
            raise ConfigurationError(
                f"the working directory {self.path} can't be made: {error}; free the disk, correct its "
                "rights or choose another"
            ) from error

    def _prepare(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        newest = max(
            self._incarnations(), default=None, key=lambda each: (bool(_histories(each[1])), each[0])
        )
        goes_on = newest is not None and _begun_under(_newest_history(newest[1])) == self._assignment
        if not self.path.exists():
            staging = self._home / f".{self.path.name}.{os.getpid()}"
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir()
            if newest is not None and goes_on:
                link_tree(newest[1], _newest_history(newest[1]).name, staging, self.path)
            staging.rename(self.path)
        # What was begun under another assignment can't be opened; but it is at hand for whoever begins with a checkpoint.
        self._forget_older(but=None if newest is None or goes_on else newest[1])
        self._forget_pins()

    def _forget_older(self, but: Path | None = None) -> None:
        for _, path in [*self._incarnations(), *self._incarnations(f".{_PREFIX}")]:
            if path != but:
                shutil.rmtree(path, ignore_errors=True)

    def _incarnations(self, prefix: str = _PREFIX) -> Iterator[tuple[int, Path]]:
        """Directories of older incarnations; never one of a newer, should this process be a zombie."""
        for path in self._home.glob(f"{prefix}*"):
            number = path.name.removeprefix(prefix).partition(".")[0]
            if number.isdecimal() and int(number) < self._incarnation:
                yield int(number), path

    def openable(self) -> tuple[int, ...]:
        """Steps to which every query can be rolled back, newest first. None of a history that was begun under another
        assignment: it holds the shards that the node owned then."""
        if _begun_under(self._history()) != self._assignment:
            return ()
        common: set[int] | None = None
        for query in self._queries:
            steps = self._with_state(query)
            common = steps if common is None else common & steps
        return tuple(sorted(common or (), reverse=True))

    def _with_state(self, query: str) -> set[int]:
        """The steps of a query whose state Spark has not deleted yet."""
        batches = self._committed(query)
        oldest = max(self._highest(query), *batches.values(), -1) - self.retained + 1
        return {step for step, batch in batches.items() if batch > oldest}

    def _committed(self, query: str) -> dict[int, int]:
        """By step, the batch of a query that is planned and recorded."""
        directory = self.query_path(query)
        recorded = {batch for batch, _ in numbered(directory / "commits")}
        plans = {batch: plan for batch, plan in numbered(directory / "offsets") if batch in recorded}
        for batch in plans.keys() - {batch for of, batch in self._steps if of == directory}:
            self._steps[directory, batch] = step_of(plans[batch])
        return {self._steps[directory, batch]: batch for batch in plans}

    def _highest(self, query: str) -> int:
        """The newest batch that there ever was of a query; -1: none that was taken back."""
        try:
            told = json.loads((self._history() / _HIGHEST).read_text())
        except FileNotFoundError:
            return -1
        return int(told.get("batches", {}).get(query, int(told["step"]) - 1))

    def create(self, step: int = 0, begin: Callable[[str, Path], None] | None = None) -> None:
        """Forget everything: the pipeline begins before step 1; or after `step`, of which
        `begin` writes a query's beginning.

        begin: given a query's name and its empty directory, makes it one that Spark opens after `step`.
        """
        before = _histories(self.path)
        history = self.path / f"{_HISTORY}{max(before, default=0) + 1}"
        history.mkdir()
        self._sign(history)
        self._forget(before)
        for query in self._queries:
            self.query_path(query).mkdir()
            if step > 0 and begin is not None:
                begin(query, self.query_path(query))

    def begin_with(self, step: int, fill: Callable[[Path], None]) -> None:
        """Forget everything and begin after `step` with what `fill` puts into an empty directory: one for each query, as
        a pin has it. `roll_back` can then go there.

        Raises what `fill` raises, and CheckpointError if there is nothing of a query. What was there then stays.
        """
        before = _histories(self.path)
        history = self.path / f"{_HISTORY}{max(before, default=0) + 1}"
        staging = self.path / f".{history.name}.{os.getpid()}"
        shutil.rmtree(staging, ignore_errors=True)
        try:
            staging.mkdir()
            fill(staging)
            missing = [query for query in self._queries if not _is_recorded(staging / query, step)]
            if missing:
                raise CheckpointError(
                    f"the checkpoint holds nothing of {', '.join(missing)} at step {step}: it is of other queries than "
                    "the pipeline has now; open another checkpoint or create anew"
                )
            fit_restored(staging, history)
            self._sign(staging)
            staging.rename(history)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        self._forget(before)

    def at_hand(self) -> Callable[[str], Iterator[Path]]:
        """By a file's path in a part of a checkpoint: where it may be in a directory of any node of the pipeline on this
        machine."""
        nodes = self._home.parent
        histories = [
            *sorted(nodes.glob(f"node-*/{_PREFIX}*/{_HISTORY}*")),
            *nodes.glob(f"node-*/{AHEAD}/step-*"),
        ]
        return lambda path: (file for history in histories for file in same_tables(history / path))

    def _sign(self, history: Path) -> None:
        (history / _ASSIGNMENT).write_text(json.dumps({"number": self._assignment}), encoding="utf-8")

    def _forget(self, histories: Sequence[int]) -> None:
        for number in histories:
            shutil.rmtree(self.path / f"{_HISTORY}{number}", ignore_errors=True)
        # Nobody waits for that: it is a thousand files, in the middle of a change of the layout.
        threading.Thread(target=self._forget_older, name="kcontrol-forget", daemon=True).start()
        self._forget_pins()

    def pin(self, step: int) -> Path:
        """At the boundary of `step`, before the next one begins: keep what Spark needs to go on after it.

        Returns the directory of the pin: hard links in a directory per query, and operators' metadata without
        absolute paths. It stays as it is until `unpin`, a new incarnation, or a new beginning. A step that is
        pinned already is pinned once. Raises CheckpointError: the step is not recorded by every query, or in
        a version that is not known; its state is not there; or the disk refused.
        """
        pin = self._pin_path(step)
        if pin.is_dir():
            return pin
        for tries_left in reversed(range(_PIN_TRIES)):
            try:
                self._make_pin(step, pin)
                break
            except FileNotFoundError as error:
                if not tries_left:
                    raise CheckpointError(
                        f"step {step} can't be kept for a checkpoint: {error.filename} is not there"
                    ) from error
            except (OSError, ConfigurationError) as error:
                raise CheckpointError(
                    f"step {step} can't be kept for a checkpoint in {pin}: {error}"
                ) from error
        return pin

    def _make_pin(self, step: int, pin: Path) -> None:
        history = self._history()
        staging = pin.with_name(f".{pin.name}.{os.getpid()}")
        shutil.rmtree(staging, ignore_errors=True)
        try:
            staging.mkdir(parents=True)  # There may be no query whose files are needed.
            for query in self._queries:
                batch = batch_of(history / query, step)
                link_pin(history / query, needed_files(history / query, batch), staging / query, history)
            staging.rename(pin)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def unpin(self, step: int) -> None:
        """Give up the pin of `step`, if there is one."""
        shutil.rmtree(self._pin_path(step), ignore_errors=True)

    def _pin_path(self, step: int) -> Path:
        return self.path / _PINS / f"step-{step}"

    def _forget_pins(self) -> None:
        shutil.rmtree(self.path / _PINS, ignore_errors=True)

    def roll_back(self, step: int) -> None:
        """Make Spark resume after `step`: its queries must be stopped. What it planned or recorded later is
        deleted.

        State of later batches may stay: state files are named by ids that only the deleted commits knew.
        """
        batches = {query: self._committed(query) for query in self._queries}
        self._note_highest(batches)
        for query, of_query in batches.items():
            directory, last = self.query_path(query), of_query.get(step, step - 1)
            # Offsets last: a batch that is recorded but not planned is something that Spark refuses to open.
            for log in LOGS:
                for batch, path in list(numbered(directory / log)):
                    if batch > last:
                        _delete_with_checksum(path)
                        self._steps.pop((directory, batch), None)
                for stray in _strays(directory / log):
                    stray.unlink()

    def _note_highest(self, batches: Mapping[str, Mapping[int, int]]) -> None:
        """Before they are taken back: Spark has deleted state by how far it was."""
        newest = {query: max(of_query.values(), default=-1) for query, of_query in batches.items()}
        before = {query: self._highest(query) for query in newest}
        if all(newest[query] <= before[query] for query in newest):
            return
        told = {query: max(newest[query], before[query]) for query in newest}
        staging = self._history() / f".{_HIGHEST}"
        # `step` is what a kcontrol reads that does not know of resets.
        staging.write_text(json.dumps({"step": max(told.values()) + 1, "batches": told}))
        staging.replace(self._history() / _HIGHEST)

    def planned_steps(self, query: str, batch: int) -> list[int]:
        """The step at which each source of a batch ends, as Spark wrote it down before the batch ran."""
        return planned_ends(self.query_path(query) / "offsets" / str(batch))


def same_tables(file: Path) -> Iterator[Path]:
    """A file, and those that have its number, if it is a table of state: Spark gives the same one other names in some
    snapshots (`NUMBER-UUID.sst`)."""
    yield file
    number, dash, _ = file.name.partition("-")
    if dash and file.suffix == TABLE:
        yield from (other for other in sorted(file.parent.glob(f"{number}-*{TABLE}")) if other != file)


def _histories(incarnation: Path) -> list[int]:
    numbers = [path.name.removeprefix(_HISTORY) for path in incarnation.glob(f"{_HISTORY}*")]
    return [int(number) for number in numbers if number.isdecimal()]


def _newest_history(incarnation: Path) -> Path:
    """A late upload can only bring back an older one."""
    return incarnation / f"{_HISTORY}{max(_histories(incarnation), default=0)}"


def _begun_under(history: Path) -> int:
    """The assignment of a history; one that does not say is of a time before there were any. -1: whoever began it was killed
    while he wrote that down, and so before anything else was in it."""
    try:
        return int(json.loads((history / _ASSIGNMENT).read_text())["number"])
    except FileNotFoundError:
        return 0
    except ValueError:
        return -1


def _is_recorded(query: Path, step: int) -> bool:
    try:
        return (query / "commits" / str(batch_of(query, step))).is_file()
    except FileNotFoundError:
        return False


def _strays(log: Path) -> list[Path]:
    """Temporary files that a killed process left in a log."""
    return [path for path in log.iterdir() if is_stray(path.name)] if log.is_dir() else []


def _delete_with_checksum(path: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.unlink()
