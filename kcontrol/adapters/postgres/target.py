"""A table that committed steps are applied to, each in one transaction with its number."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcontrol.adapters.postgres.library import errors_told
from kcontrol.adapters.postgres.load import Loader
from kcontrol.adapters.postgres.record import HeldDelivery, StepRecord
from kcontrol.adapters.postgres.rows import Row, RowMaker, RowRules
from kcontrol.adapters.postgres.session import DatabaseAddress, SessionLimits
from kcontrol.adapters.postgres.table import Table, look_at
from kcontrol.core.step.following import (
    Applied,
    Delivered,
    Guarantee,
    PlacedRecords,
    StepVerdict,
    judge_step,
)
from kcontrol.errors import DeliveryHaltedError, ReplacedError, TargetAwayError
from kcontrol.wire.fields import BadRowError

_log = logging.getLogger("kcontrol.deliver")

BAD_ROWS_TOLD = 3
"""Of a step, one by one; of the others only how many they are."""


@dataclass(frozen=True)
class PostgresOptions:
    """table: its name, with its schema if it is on no search path. columns: that are written; (): all but those that the
    database fills in. skips_bad_rows: and counts them, instead of halting. batch_rows: of one COPY. silence_s: of a holder,
    after which another takes the delivery over although its session is still there."""

    address: DatabaseAddress
    table: str
    rules: RowRules
    columns: tuple[str, ...] = ()
    skips_bad_rows: bool = False
    batch_rows: int = 10_000
    silence_s: float = 30.0
    limits: SessionLimits = field(default_factory=SessionLimits)
    adopts: bool = False


class PostgresTarget:
    """For one output. All methods raise TargetAwayError, after which `open` begins anew, and DeliveryHaltedError."""

    guarantee = Guarantee.EXACTLY_ONCE
    kind = "postgresql"

    def __init__(self, options: PostgresOptions, pipeline: str, output: str, holder: str) -> None:
        """holder: who this is, for others; no two are alike."""
        self._options = options
        self._pipeline, self._output, self._holder = pipeline, output, holder
        self._session: Any = None
        self._table: Table | None = None
        self._fence = 0
        self.held_by = ""
        """Who has the delivery, if `take` did not get it."""

    def __str__(self) -> str:
        return f"{self._options.address}, table {self._table.text if self._table else self._options.table}"

    @property
    def name(self) -> str:
        """Of the target, short."""
        return self._table.name if self._table else self._options.table

    @property
    def address(self) -> str:
        """Of the database."""
        return self._options.address.url

    def open(self) -> None:
        """Connect, look at the table, and see that kcontrol_steps is there."""
        self.close()
        options = self._options
        self._session = options.address.connect(
            f"kcontrol deliver {self._pipeline}/{self._output}", options.limits
        )
        with errors_told(str(self)):
            keys = options.rules.keys
            self._table = look_at(self._session, options.table, options.columns, keys, str(options.address))
            self._rows = RowMaker(self._table.columns, options.rules)
            self._loader = Loader(self._session, self._table, keys)
            self._loader.prepare()
            self._record = StepRecord(self._session, self._table, self._pipeline, self._output)
            self._record.make_table()

    def close(self) -> None:
        """Let go of the session, and so of the delivery."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def applied(self) -> Applied | None:
        """What the target holds; None: nothing was ever delivered."""
        with errors_told(str(self)):
            held = self._record.read()
        return None if held is None else held.applied

    def forget(self) -> None:
        """Nothing was ever delivered, if the table is empty."""
        with errors_told(str(self)):
            self._record.forget()

    def begin(self, log_id: str, step: int) -> None:
        """Of a target that holds nothing: `step` counts as its last one."""
        with errors_told(str(self)):
            self._record.begin(log_id, step)

    def take(self) -> Applied | None:
        """Have the delivery, so that nobody else has; what the target holds. None: `held_by` has it, and is heard of."""
        table = self._whole_table()
        with errors_told(str(self)):
            alone = self._record.try_lock()
            held = self._record.read()
            if held is None:
                raise self._deleted()
            # A session of this very process may not be over for the server yet.
            foreign = not alone and held.holder != self._holder
            self.held_by = held.holder
            if foreign and held.silent_s < self._options.silence_s:
                return None
            if foreign:
                self._record.end_overdue(2 * self._options.limits.statement_s)
            if held.target_oid != table.oid:
                self._adopt(held)
            taken = self._record.take(self._holder, self._options.silence_s if foreign else None)
        if taken is None:
            # It was at work all the time, in one long transaction.
            return None
        self._fence = taken.fence
        return taken.applied

    def _deleted(self) -> DeliveryHaltedError:
        return DeliveryHaltedError(
            f"{self}: the row of this delivery in kcontrol_steps was deleted while it ran; start it again"
        )

    def _adopt(self, held: HeldDelivery) -> None:
        if not self._options.adopts:
            raise self._made_anew(held)
        self._record.adopt()

    def _made_anew(self, held: HeldDelivery) -> DeliveryHaltedError:
        return DeliveryHaltedError(
            f"{self} is not the one that steps up to {held.applied.step} were delivered to: it was made anew or "
            "restored. If it holds those steps, start once with --adopt; if it is empty, with --resync"
        )

    def beat(self, last_in_log: int) -> None:
        """Say that this is at work. Raises ReplacedError: another has taken over."""
        with errors_told(str(self)):
            if not self._record.beat(self._holder, self._fence, last_in_log):
                raise ReplacedError(f"{self}: another process has taken this delivery over")

    def halted(self, reason: str) -> None:
        """For whoever looks into the database."""
        if self._session is not None and self._fence:
            with errors_told(str(self)):
                self._record.halted(self._holder, self._fence, reason)

    def apply(
        self, step: int, its_print: str, committed_ms: int, records: PlacedRecords, follows: int
    ) -> Delivered:
        """Apply a step whole, with its number, in one transaction; or nothing of it.

        follows: see `judge_step`. records: read once, and to their end if the step is applied. Raises
        ReplacedError: another has taken over. DeliveryHaltedError, too: the table is another one by now. What iterating
        `records` raises.
        """
        with errors_told(str(self)), self._session.transaction():
            held = self._record.read(lock=True)
            # A row that was made anew, or restored, counts its fences from before again.
            if held is None or (held.fence, held.holder) != (self._fence, self._holder):
                raise ReplacedError(f"{self}: another process has taken this delivery over")
            verdict = judge_step(held.applied, step, its_print, follows)
            if verdict is not StepVerdict.NEXT:
                return Delivered(verdict, held.applied)
            rows, bad_rows = self._load(step, records)
            now = Applied(self._pipeline, held.applied.log_id, step, its_print)
            if not self._record.applied(now, committed_ms, rows, bad_rows):
                raise self._made_anew(held)
        return Delivered(verdict, held.applied, rows, bad_rows)

    def _load(self, step: int, records: PlacedRecords) -> tuple[int, int]:
        self._loader.begin()
        rows = bad_rows = 0
        for batch, bad in self._batches(step, records):
            bad_rows += bad
            rows += len(batch)
            if batch:
                self._loader.add(batch)
        self._loader.finish()
        if bad_rows > BAD_ROWS_TOLD:
            _log.warning("step %d: %d bad rows were left out", step, bad_rows)
        return rows, bad_rows

    def _batches(self, step: int, records: PlacedRecords) -> Iterator[tuple[Sequence[Row], int]]:
        """Rows, and how many records on their way were none."""
        batch: list[Row] = []
        bad = told = 0
        for key, value, place in records:
            try:
                batch.append(self._rows.make(key, value))
            except BadRowError as error:
                said = f"step {step}, {place}: {error}"
                if not self._options.skips_bad_rows:
                    raise DeliveryHaltedError(
                        f"{self}: {said}. Nothing of the step was applied: change the table, or leave such rows out "
                        "with --on-bad-row skip"
                    ) from error
                bad, told = bad + 1, told + 1
                if told <= BAD_ROWS_TOLD:
                    _log.warning("left out: %s", said)
            if len(batch) >= self._options.batch_rows:
                yield batch, bad
                batch, bad = [], 0
        yield batch, bad

    def _whole_table(self) -> Table:
        if self._table is None or self._session is None:
            raise TargetAwayError(f"{self}: not connected")
        return self._table
