"""Lives of deliverers to tables of files, in processes of their own, which end or are stopped at a chosen place on their way.

Nobody is kept from the delivery: all that makes a step single is the table.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.dataset as ds
from deltalake import DeltaTable
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.table import Transaction

from kcontrol.adapters.lake.delta import STEP, DeltaSteps
from kcontrol.adapters.lake.iceberg import IcebergSteps
from kcontrol.adapters.lake.parquet import STEP_COLUMN, ParquetSteps
from kcontrol.adapters.lake.rows import BatchMaker, BatchRules
from kcontrol.adapters.lake.target import LakeTarget, StepTable
from kcontrol.apps.deliver.delivery import DeliveryOptions
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.deliver.lives import OUTPUT, Put, ambush
from tests.integration.kafka.steps_maker import PIPELINE
from tests.support.iceberg import (
    CATALOG,
    NAME,
    describe,
    iceberg_rows,
    iceberg_steps,
    make_catalog,
)
from tests.support.postgres import Database

COLUMNS = "step BIGINT NOT NULL, key INT, value BIGINT"
KINDS: dict[str, type[DeltaSteps] | type[ParquetSteps] | type[IcebergSteps]] = {
    "delta": DeltaSteps,
    "parquet": ParquetSteps,
    "iceberg": IcebergSteps,
}
POINTS = {
    "delta": ("opened", "begun", "taken", "made", "soon", "committed"),
    "parquet": ("opened", "begun", "taken", "made", "soon", "staged", "committed"),
    "iceberg": ("opened", "begun", "taken", "made", "soon", "staged", "compared", "committed"),
}
"""The arrows on a step's way into the table. soon: at any moment after its first rows."""
SOON_S = 0.05


class EverybodysTurn:
    """A DeliveryTurn that nobody waits for."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def take(self) -> bool:
        return True

    def beat(self) -> None: ...


@dataclass(frozen=True)
class LakeLife:
    """What a deliverer is asked for. until: the step after which it ends. at: where it ends or is stopped, of POINTS,
    at the `nth` time that it gets there; '' nowhere. uri: of Iceberg's catalog; '' for one in a file below the path."""

    settings: ClusterSettings
    kind: str
    path: Path
    until: int
    at: str = ""
    nth: int = 1
    signal: int = signal.SIGKILL
    ddl: str | None = COLUMNS
    skips: bool = False
    batch_rows: int = 4
    adopts: bool = False
    uri: str = ""
    options: DeliveryOptions = field(
        default_factory=lambda: DeliveryOptions(poll_s=0.2, settle_s=1, longest_wait_s=0.5)
    )

    def target(self) -> LakeTarget:
        rules = BatchRules("json", batch_rows=self.batch_rows, skips_bad_rows=self.skips)
        return LakeTarget(self._table(), EverybodysTurn(), PIPELINE, rules)

    def _table(self) -> StepTable:
        if self.kind == "delta":
            return DeltaSteps(self.path, PIPELINE, OUTPUT, self.ddl, adopts=self.adopts)
        if self.kind == "parquet":
            return ParquetSteps(self.path, PIPELINE, OUTPUT, self.ddl)
        describe(self.path, self.uri)
        return IcebergSteps(CATALOG, NAME, PIPELINE, OUTPUT, self.ddl, adopts=self.adopts)

    def fresh(self) -> LakeLife:
        """With nothing there but, for Iceberg, a catalog."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.kind == "iceberg":
            make_catalog(self.path, self.uri)
        return self

    def ambush(self, act: Callable[[], object] | None = None, put: Put = setattr) -> None:
        """See AnyLife."""
        table = KINDS[self.kind]
        owner, method = {
            "opened": (LakeTarget, "open"),
            "begun": (table, "begin"),
            "taken": (LakeTarget, "take"),
            "made": (BatchMaker, "_batch"),
            "soon": (BatchMaker, "_batch"),
            "staged": (ParquetSteps, "_stage") if self.kind == "parquet" else (Transaction, "append"),
            "compared": (MetastoreCatalog, "_update_and_stage_table"),
            "committed": (table, "add"),
        }[self.at]
        ambush(owner, method, self.nth, act or (self._end_soon if self.at == "soon" else self._end), put)

    def _end(self) -> None:
        os.kill(os.getpid(), self.signal)

    def _end_soon(self) -> None:
        threading.Timer(random.uniform(0, SOON_S), self._end).start()


def catalog_in(database: Database) -> str:
    """The address of an Iceberg catalog in a database of PostgreSQL, for `LakeLife.uri`."""
    return database.url.replace("postgresql://", "postgresql+psycopg://")


def rows_of(kind: str, path: Path, uri: str = "") -> list[tuple[int, ...]]:
    """As any reader finds them, sorted."""
    if kind == "iceberg":
        return iceberg_rows(path, uri)
    if not path.exists() or (kind == "delta" and not DeltaTable.is_deltatable(str(path))):
        return []
    if kind == "delta":
        files = DeltaTable(str(path)).file_uris()
        table = ds.dataset(files, format="parquet").to_table() if files else None
    else:
        table = ds.dataset(path, format="parquet", partitioning="hive").to_table()
    if table is None or not len(table):
        return []
    return sorted(tuple(row[name] for name in ("step", "key", "value")) for row in table.to_pylist())


def steps_of(kind: str, path: Path, uri: str = "") -> list[int]:
    """That the table says were added to it, in their order."""
    if kind == "iceberg":
        return iceberg_steps(path, uri)
    if kind == "delta":
        return [each[STEP] for each in reversed(DeltaTable(str(path)).history()) if STEP in each]
    found = (re.fullmatch(f"{STEP_COLUMN}=([0-9]+)", each.name) for each in path.iterdir())
    return sorted(int(match[1]) for match in found if match)
