"""Tables of Delta Lake in a directory. Each commit is a file of the table's log, written once, and has `txn` with the number of
a step or batch."""

from __future__ import annotations

import importlib.util
import json
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds

from bench.deliver.columns import SCHEMA
from bench.deliver.rows import Amounts, Numbers
from bench.deliver.tables import TargetMissingError


@dataclass(frozen=True)
class DeltaTable:
    """At a path where nothing is at first."""

    path: Path

    @property
    def to(self) -> str:
        """See DeliveredTable."""
        return f"delta://{self.path}"

    @property
    def deliver_options(self) -> Sequence[str]:
        """See DeliveredTable."""
        return ("--create", SCHEMA)

    def step(self) -> int:
        """See DeliveredTable."""
        newest = self._commits()[-1:]
        return max((number_of(commit.read_text()) or 0 for commit in newest), default=0)

    def moments_ms(self) -> list[float]:
        """See DeliveredTable."""
        commits = (each for each in self._commits() if number_of(each.read_text()) is not None)
        return [commit.stat().st_mtime_ns / 1e6 for commit in commits]

    def columns(self) -> tuple[Numbers, Numbers, Amounts]:
        """See DeliveredTable."""
        import deltalake

        files = deltalake.DeltaTable(str(self.path)).file_uris()
        if not files:
            return np.array([], np.int64), np.array([], np.int64), np.array([], np.float64)
        found = ds.dataset(files, format="parquet").to_table(columns=["id", "number", "amount"])
        ids, numbers, amounts = (column.to_numpy() for column in found.columns)
        return ids, numbers, amounts

    def _commits(self) -> list[Path]:
        return sorted((self.path / "_delta_log").glob("[0-9]*.json"))


def number_of(commit: str) -> int | None:
    """Of the step or batch that a commit has added, from its file; None: it has added none."""
    actions = (json.loads(line) for line in commit.splitlines() if line.startswith('{"txn"'))
    return next((int(action["txn"]["version"]) for action in actions), None)


class DeltaTables:
    """Below one directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.environment: dict[str, str] = {}

    def new(self, mode: str) -> DeltaTable:  # noqa: ARG002 - there is only one
        """See Tables."""
        return DeltaTable(self._home / uuid.uuid4().hex)


@contextmanager
def delta_tables() -> Iterator[DeltaTables]:
    """While its directory is there. Raises TargetMissingError."""
    if importlib.util.find_spec("deltalake") is None:
        raise TargetMissingError(
            "Delivering to Delta Lake needs deltalake, which is not installed: pip install 'kcontrol[delta]'."
        )
    with tempfile.TemporaryDirectory(prefix="bench-delta-") as home:
        yield DeltaTables(Path(home))
