"""A table of Delta Lake. The commit that adds a step's files has `txn`, an application's name and the step's number, as the
protocol of Delta has it for just this.

The library refuses a commit if there was another one since the table was read, because no commit is tried twice
(`max_commit_retries=0`); it accepts the same number again from whoever has read the table afterwards. So the number is
looked at on the very handle that then commits.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from kcontrol.adapters.lake.delta_commits import OUTPUT, PIPELINE, PRINT, STEP, StepCommit
from kcontrol.adapters.lake.library import errors_told, load_deltalake
from kcontrol.adapters.lake.record import TableDelivery, gone, table_delivery
from kcontrol.adapters.lake.types import schema_of
from kcontrol.core.step.following import Applied
from kcontrol.errors import DeliveryHaltedError, TargetAwayError

FORGETS = "delta.setTransactionRetentionDuration"
"""A table with this property forgets after a time which step it has had last: a delivery that stood still for longer would
begin again."""


class DeltaSteps:
    """A StepTable. Of one output; a table may have those of several."""

    kind = "delta"

    def __init__(
        self, path: Path, pipeline: str, output: str, ddl: str | None = None, *, adopts: bool = False
    ) -> None:
        """path: absolute. ddl: the columns, if there is no table yet. adopts: `forget` takes the table as it is. Raises
        ConfigurationError: the columns are none, or the library is not installed."""
        self._library = load_deltalake()
        self._path, self._pipeline, self._output, self._adopts = path, pipeline, output, adopts
        self._property = f"kcontrol.{pipeline}.{output}"
        self._asked = None if ddl is None else schema_of(ddl)
        self._schema: pa.Schema | None = None
        self._table: Any = None
        self._log_of_commits: tuple[int, int] | None = None
        """Which directory holds it, since the table was read."""
        self._generation = ""
        self._last = StepCommit(pipeline, output)

    def __str__(self) -> str:
        return str(self._path)

    def open(self) -> pa.Schema:
        """See StepTable."""
        self._generation = ""
        self._last.forget()
        with errors_told(str(self)):
            if self._log_of_commits is None and not self._library.DeltaTable.is_deltatable(str(self._path)):
                self._make()
            self._load()
            self._properties()
            self._schema = pa.schema(self._table.schema().to_arrow())
            found = self._library.Schema.from_arrow(self._schema)
            asked = None if self._asked is None else self._library.Schema.from_arrow(self._asked)
        if asked is not None and found != asked:
            raise DeliveryHaltedError(
                f"{self}: has other columns than --create says: it has {found.to_json()}; asked was {asked.to_json()}. Leave "
                "--create out, or deliver to another table"
            )
        return self._schema

    def _make(self) -> None:
        if self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
            raise DeliveryHaltedError(
                f"{self}: it is no table of Delta Lake, and not empty: give another directory"
            )
        if self._asked is None:
            raise DeliveryHaltedError(
                f"{self}: there is no table of Delta Lake: make one, or give its columns with --create 'NAME TYPE, ...'"
            )
        # Of two that make it, one finds it there.
        self._library.DeltaTable.create(str(self._path), self._asked, mode="ignore")

    def _load(self) -> None:
        """Raises TargetAwayError: it was there, and is not any more."""
        there = self._directory()
        try:
            self._table = self._library.DeltaTable(str(self._path))
        except self._library.exceptions.DeltaError as error:
            if self._log_of_commits is not None and there != self._log_of_commits:
                raise gone(str(self)) from error
            raise
        self._log_of_commits = there

    def _directory(self) -> tuple[int, int] | None:
        """Device and inode of the directory of commits."""
        try:
            found = (self._path / "_delta_log").stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def read(self) -> Applied | None:
        """See StepTable."""
        with errors_told(str(self)):
            self._load()
            found = self._delivery()
            if found is None:
                return None
            step = self._table.transaction_version(self._application(found))
            if step is None:
                return found.applied(None)
            if not self._last.is_there(self._table, step):
                raise self._taken_back(step)
            return found.applied(step, self._last.print)

    def _taken_back(self, step: int) -> DeliveryHaltedError:
        return DeliveryHaltedError(
            f"{self}: was taken back by a RESTORE since step {step} of output {self._output!r} was added to it, which it says "
            "that it has: find the last step that it holds (kcontrol.step, in DESCRIBE HISTORY), and start once with "
            "--resync --adopt and --start the step after that"
        )

    def begin(self, log_id: str, step: int) -> None:
        """See StepTable."""
        made = TableDelivery(self._pipeline, self._output, log_id, step, secrets.token_hex(8))
        with errors_told(str(self)):
            self._put(made.text())

    def forget(self) -> None:
        """See StepTable."""
        with errors_told(str(self)):
            self._load()
            if not self._adopts and self._table.file_uris():
                raise DeliveryHaltedError(
                    f"{self}: it is not empty, so nothing begins anew: delete all of its rows first; or, if it holds what the "
                    "steps before --start have given, say so with --adopt"
                )
            if self._delivery() is not None:
                self._put("")
        self._generation = ""

    def clear(self) -> None:
        """See StepTable. Files that no commit names are for VACUUM; whoever wrote them finds that the table has moved on."""

    def add(self, now: Applied, committed_ms: int, batches: Iterator[pa.RecordBatch]) -> None:
        """See StepTable."""
        feed = _Feed(batches)
        first = feed.first()
        found = self._delivery()
        if found is None or self._schema is None:
            raise TargetAwayError(f"{self}: the delivery was begun anew by another process")
        how = self._library.transaction
        properties = how.CommitProperties(
            custom_metadata={
                STEP: now.step,
                PRINT: now.print,
                PIPELINE: self._pipeline,
                OUTPUT: self._output,
                "kcontrol.committed_ms": committed_ms,
            },
            max_commit_retries=0,
            app_transactions=[how.Transaction(self._application(found), now.step)],
        )
        with errors_told(str(self)):
            before = int(self._table.version())
            try:
                if first is None:
                    self._table.create_write_transaction(
                        [], "append", self._table.schema(), commit_properties=properties
                    )
                else:
                    rows = pa.RecordBatchReader.from_batches(self._schema, feed.all())
                    self._library.write_deltalake(
                        self._table, rows, mode="append", commit_properties=properties
                    )
            except Exception as error:
                # The library tells of what its source of rows has raised in words of its own.
                if feed.error is not None:
                    raise feed.error from None
                if self._directory() != self._log_of_commits:
                    raise gone(str(self)) from error
                raise
            # The library makes directories that are not there: what it has written where a disk was is not in the table.
            if self._directory() != self._log_of_commits:
                raise gone(str(self))
        self._last.added(now.step, now.print, before + 1)

    def _application(self, found: TableDelivery) -> str:
        return f"kcontrol/{self._pipeline}/{self._output}/{found.generation}"

    def _delivery(self) -> TableDelivery | None:
        text = self._properties().get(self._property)
        if not text:
            return None
        found = table_delivery(text, self._generation, str(self))
        self._generation = found.generation
        return found

    def _properties(self) -> dict[str, str]:
        found: dict[str, str] = self._table.metadata().configuration
        if FORGETS in found:
            raise DeliveryHaltedError(
                f"{self}: its property {FORGETS} is {found[FORGETS]!r}, so that after that time it does not know which "
                "steps it has, and could be given them twice: take the property away"
            )
        return found

    def _put(self, text: str) -> None:
        how = self._library.transaction.CommitProperties(max_commit_retries=0)
        self._table.alter.set_table_properties(
            {self._property: text}, raise_if_not_exists=False, commit_properties=how
        )


class _Feed:
    """Batches for the library, which asks for them in a thread of its own; keeps what they raise."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._first: pa.RecordBatch | None = None
        self.error: BaseException | None = None

    def first(self) -> pa.RecordBatch | None:
        """None: there is none."""
        self._first = next(self._batches, None)
        return self._first

    def all(self) -> Iterator[pa.RecordBatch]:
        """The first one, too."""
        try:
            if self._first is not None:
                yield self._first
                self._first = None
            yield from self._batches
        except BaseException as error:
            self.error = error
            raise
