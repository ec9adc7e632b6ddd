"""A directory of Parquet files by step: `kcontrol_step=42/part-0.parquet`, with `_manifest.json` beside it.

A step is written under `_kcontrol/staged` and becomes visible, whole, by one rename of its directory. POSIX refuses to
rename a directory to the place of one that is not empty, so of two that bring the same step one is too late, and changes
nothing. What was delivered is what is there: the greatest number of a step.

Each process that takes the delivery has a directory of its own under `staged`, and moves away those of others. One that was
replaced finds out where it makes the directory of a step, or renames it, however long it hangs before either: so it adds
nothing that a person has taken out since, or to a delivery that was begun anew.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kcontrol.adapters.lake.record import TableDelivery, gone, table_delivery
from kcontrol.adapters.lake.types import columns_told, schema_of
from kcontrol.core.step.following import Applied
from kcontrol.errors import ConfigurationError, DeliveryHaltedError, TargetAwayError

STEP_COLUMN = "kcontrol_step"
MANIFEST, OWN, DELIVERY, COLUMNS = "_manifest.json", "_kcontrol", "delivery.json", "columns.arrow"
_FILE = "part-0.parquet"
_FINAL = frozenset(
    {
        *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG),
        *(errno.ELOOP, errno.EINVAL),
    }
)
"""Whatever else goes wrong (no space, a disk or a server that is away) may pass."""
_THERE = frozenset({errno.ENOTEMPTY, errno.EEXIST})


class ParquetSteps:
    """A StepTable. Of one output."""

    kind = "parquet"

    def __init__(self, path: Path, pipeline: str, output: str, ddl: str | None = None) -> None:
        """path: absolute. ddl: the columns, if there is no directory yet. Raises ConfigurationError: they are none."""
        self._path, self._pipeline, self._output = path, pipeline, output
        self._asked = None if ddl is None else schema_of(ddl)
        if self._asked is not None and STEP_COLUMN in self._asked.names:
            raise ConfigurationError(
                f"--create: {STEP_COLUMN} is what readers know the step by: give the column another name"
            )
        self._own = path / OWN
        self._staged, self._left = self._own / "staged", self._own / "left"
        self._mine: Path | None = None
        """Where this process stages, since it has taken the delivery."""
        self._schema = self._asked
        self._was_there = False
        self._last: int | None = None
        self._generation = ""

    def __str__(self) -> str:
        return str(self._path)

    def open(self) -> pa.Schema:
        """See StepTable."""
        with self._told():
            self._last, self._generation = None, ""
            if not (self._own / COLUMNS).exists():
                if self._was_there:
                    raise gone(str(self))
                self._make()
            schema = pa.ipc.read_schema(pa.py_buffer((self._own / COLUMNS).read_bytes()))
        if self._asked is not None and not schema.equals(self._asked):
            raise DeliveryHaltedError(
                f"{self}: has other columns than --create says: it has {columns_told(schema)}; asked was "
                f"{columns_told(self._asked)}. Leave --create out, or deliver to another directory"
            )
        self._schema, self._was_there = schema, True
        return schema

    def _make(self) -> None:
        if self._path.exists() and any(each.name != OWN for each in self._path.iterdir()):
            raise DeliveryHaltedError(
                f"{self}: it is not empty, and nothing that kcontrol deliver has made: give another directory"
            )
        if self._asked is None:
            raise DeliveryHaltedError(
                f"{self}: nothing is there yet: give its columns with --create 'NAME TYPE, ...'"
            )
        for each in (self._staged, self._left):
            each.mkdir(parents=True, exist_ok=True)
        self._put_once(self._own / COLUMNS, self._asked.serialize().to_pybytes())

    def read(self) -> Applied | None:
        """See StepTable."""
        with self._told():
            found = self._delivery()
            if found is None:
                if not (self._own / COLUMNS).exists():
                    raise gone(str(self))
                return None
            if self._last is None or not self._place(self._last).exists():
                self._last = self._newest()
            if self._last is None:
                return found.applied(None)
            return found.applied(self._last, self._print(self._last))

    def begin(self, log_id: str, step: int) -> None:
        """See StepTable."""
        with self._told():
            self._let_nobody_finish()
            if self._newest() is not None:
                raise self._not_empty()
            made = TableDelivery(self._pipeline, self._output, log_id, step, secrets.token_hex(8))
            self._put_once(self._own / DELIVERY, made.text().encode())

    def forget(self) -> None:
        """See StepTable."""
        with self._told():
            self._delivery()
            self._let_nobody_finish()
            if self._newest() is not None:
                raise self._not_empty()
            (self._own / DELIVERY).unlink(missing_ok=True)
            self._generation = ""

    def clear(self) -> None:
        """See StepTable."""
        with self._told():
            self._let_nobody_finish()
            mine = self._staged / secrets.token_hex(8)
            mine.mkdir()
            self._mine = mine

    def _let_nobody_finish(self) -> None:
        """What is staged is moved away before it is removed, so that nobody makes half of it visible."""
        for each in (*self._staged.iterdir(), *self._own.glob("*.new")):
            with suppress(FileNotFoundError):
                each.rename(self._left / f"{each.name}.{secrets.token_hex(4)}")
        for each in self._left.iterdir():
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)

    def add(self, now: Applied, committed_ms: int, batches: Iterator[pa.RecordBatch]) -> None:
        """See StepTable."""
        if self._mine is None:
            raise self._replaced()
        with self._told():
            staged = self._mine / f"{now.step}.{secrets.token_hex(8)}"
            try:
                staged.mkdir()
                self._stage(staged, now, committed_ms, batches)
                self._publish(staged, now.step)
            except FileNotFoundError as error:
                raise self._replaced() from error
            except BaseException:
                shutil.rmtree(staged, ignore_errors=True)
                raise
            self._last = now.step

    def _stage(
        self, staged: Path, now: Applied, committed_ms: int, batches: Iterator[pa.RecordBatch]
    ) -> None:
        files = []
        first = next(batches, None)
        if first is not None:
            path = staged / _FILE
            rows = 0
            with pq.ParquetWriter(path, self._schema, compression="zstd") as writer:
                while first is not None:
                    writer.write_batch(first)
                    rows += len(first)
                    first = next(batches, None)
            _sync(path)
            files = [{"path": _FILE, "size_bytes": path.stat().st_size, "rows": rows}]
        manifest = {
            "pipeline": self._pipeline,
            "output": self._output,
            "log_id": now.log_id,
            "step": now.step,
            "print": now.print,
            "committed_ms": committed_ms,
            "files": files,
        }
        (staged / MANIFEST).write_text(json.dumps(manifest, indent=1))
        _sync(staged / MANIFEST)
        _sync(staged)

    def _publish(self, staged: Path, step: int) -> None:
        try:
            staged.rename(self._place(step))
        except OSError as error:
            if error.errno not in _THERE:
                raise
            raise TargetAwayError(
                f"{self}: step {step} was there already: another process has added it"
            ) from error
        _sync(self._path)

    def _replaced(self) -> TargetAwayError:
        return TargetAwayError(f"{self}: another process has taken this delivery over, or begun it anew")

    def _place(self, step: int) -> Path:
        return self._path / f"{STEP_COLUMN}={step}"

    def _newest(self) -> int | None:
        beginning = f"{STEP_COLUMN}="
        names = (each.name for each in self._path.iterdir() if each.name.startswith(beginning))
        numbers = (each.removeprefix(beginning) for each in names)
        return max((int(each) for each in numbers if each.isdecimal()), default=None)

    def _delivery(self) -> TableDelivery | None:
        try:
            text = (self._own / DELIVERY).read_text()
        except FileNotFoundError:
            return None
        found = table_delivery(text, self._generation, str(self))
        self._generation = found.generation
        if (found.pipeline, found.output) != (self._pipeline, self._output):
            raise DeliveryHaltedError(
                f"{self}: is where output {found.output!r} of pipeline {found.pipeline!r} is delivered to: give another "
                "directory"
            )
        return found

    def _print(self, step: int) -> str:
        path = self._place(step) / MANIFEST
        try:
            return str(json.loads(path.read_bytes())["print"])
        except (ValueError, KeyError, TypeError) as error:
            raise DeliveryHaltedError(
                f"{path}: can't be read ({error!r}): remove the step's directory"
            ) from error

    def _put_once(self, path: Path, content: bytes) -> None:
        """Whole, and whoever comes second changes nothing."""
        new = path.with_name(f"{path.name}.{secrets.token_hex(8)}.new")
        new.write_bytes(content)
        _sync(new)
        with suppress(FileExistsError):
            path.hardlink_to(new)
        new.unlink()
        _sync(path.parent)

    def _not_empty(self) -> DeliveryHaltedError:
        return DeliveryHaltedError(
            f"{self}: it is not empty, so nothing begins anew: remove its directories {STEP_COLUMN}=* first"
        )

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            text = f"{self}: {error.strerror or error}{f': {error.filename}' if error.filename else ''}"
            raise (DeliveryHaltedError if error.errno in _FINAL else TargetAwayError)(text) from error


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
