"""Lives of deliverers to tables of files, in processes of their own, which end or are stopped at a chosen place on their way.

Nobody is kept from the delivery: all that makes a step single is the table.
"""

from __future__ import annotations

import os
import random
import re
import signal
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.dataset as ds
from deltalake import DeltaTable

from kcontrol.adapters.lake.delta import STEP, DeltaSteps
from kcontrol.adapters.lake.parquet import STEP_COLUMN, ParquetSteps
from kcontrol.adapters.lake.rows import BatchMaker, BatchRules
from kcontrol.adapters.lake.target import LakeTarget, StepTable
from kcontrol.apps.deliver.delivery import DeliveryOptions
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.deliver.lives import OUTPUT, ambush
from tests.integration.kafka.steps_maker import PIPELINE

COLUMNS = "step BIGINT NOT NULL, key INT, value BIGINT"
KINDS: dict[str, type[DeltaSteps] | type[ParquetSteps]] = {"delta": DeltaSteps, "parquet": ParquetSteps}
POINTS = {
    "delta": ("opened", "begun", "taken", "made", "soon", "committed"),
    "parquet": ("opened", "begun", "taken", "made", "soon", "staged", "committed"),
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
    at the `nth` time that it gets there; '' nowhere."""

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
    options: DeliveryOptions = field(
        default_factory=lambda: DeliveryOptions(poll_s=0.2, settle_s=1, longest_wait_s=0.5)
    )

    def target(self) -> LakeTarget:
        more = {"adopts": True} if self.adopts else {}
        table: StepTable = KINDS[self.kind](self.path, PIPELINE, OUTPUT, self.ddl, **more)
        rules = BatchRules("json", batch_rows=self.batch_rows, skips_bad_rows=self.skips)
        return LakeTarget(table, EverybodysTurn(), PIPELINE, rules)

    def ambush(self) -> None:
        """See AnyLife."""
        table = KINDS[self.kind]
        owner, method = {
            "opened": (LakeTarget, "open"),
            "begun": (table, "begin"),
            "taken": (LakeTarget, "take"),
            "made": (BatchMaker, "_batch"),
            "soon": (BatchMaker, "_batch"),
            "staged": (ParquetSteps, "_stage"),
            "committed": (table, "add"),
        }[self.at]
        ambush(owner, method, self.nth, self._end_soon if self.at == "soon" else self._end)

    def _end(self) -> None:
        os.kill(os.getpid(), self.signal)

    def _end_soon(self) -> None:
        threading.Timer(random.uniform(0, SOON_S), self._end).start()


def rows_of(kind: str, path: Path) -> list[tuple[int, ...]]:
    """As any reader finds them, sorted."""
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


def steps_of(kind: str, path: Path) -> list[int]:
    """That the table says were added to it, in their order."""
    if kind == "delta":
        return [each[STEP] for each in reversed(DeltaTable(str(path)).history()) if STEP in each]
    found = (re.fullmatch(f"{STEP_COLUMN}=([0-9]+)", each.name) for each in path.iterdir())
    return sorted(int(match[1]) for match in found if match)
