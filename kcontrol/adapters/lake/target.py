"""A table of files that committed steps are added to, each by one atomic change that holds its number.

That change is what makes a step exactly once (`StepTable.add`): who comes too late with it changes nothing, whoever dies
before it has changed nothing. Who is at work is a consumer group's to say (`DeliveryTurn`), so that two don't write every step
twice to throw one of them away; correctness rests on the table alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from kcontrol.adapters.lake.rows import BatchMaker, BatchRules
from kcontrol.core.step.following import (
    Applied,
    Delivered,
    Guarantee,
    PlacedRecords,
    StepVerdict,
    judge_step,
)
from kcontrol.errors import DeliveryHaltedError, ReplacedError


class DeliveryTurn(Protocol):
    """Whose the delivery is. All raise TargetAwayError; `beat` ReplacedError once another process has the delivery."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def take(self) -> bool: ...

    def beat(self) -> None: ...


class StepTable(Protocol):
    """A table, and the number of the last step in it. All raise TargetAwayError and DeliveryHaltedError."""

    kind: str

    def open(self) -> pa.Schema:
        """See that it is there, or make it. What its columns are."""
        ...

    def read(self) -> Applied | None:
        """What it holds now; None: nothing was ever delivered to it."""
        ...

    def begin(self, log_id: str, step: int) -> None:
        """Of a table that holds nothing: `step` counts as its last one."""
        ...

    def forget(self) -> None:
        """Nothing was ever delivered, if the table is empty."""
        ...

    def clear(self) -> None:
        """Of what others have begun and not finished, nothing is finished any more."""
        ...

    def add(self, now: Applied, committed_ms: int, batches: Iterator[pa.RecordBatch]) -> None:
        """All of a step, with its number, or nothing. Raises TargetAwayError also if the table was changed by
        another since `read`."""
        ...


class LakeTarget:
    """For one output. All methods raise TargetAwayError, after which `open` begins anew, and DeliveryHaltedError."""

    guarantee = Guarantee.EXACTLY_ONCE
    held_by = "another process"

    def __init__(self, table: StepTable, turn: DeliveryTurn, pipeline: str, rules: BatchRules) -> None:
        self._table, self._turn, self._pipeline, self._rules = table, turn, pipeline, rules
        self._maker: BatchMaker | None = None
        self._known = 0
        """The last step in the table, as far as whoever brings the next one has been told."""
        self.kind = table.kind

    def __str__(self) -> str:
        return str(self._table)

    @property
    def name(self) -> str:
        """With its path."""
        return str(self._table)

    @property
    def address(self) -> str:
        """As `--to` has it."""
        return f"{self.kind}://{self._table}"

    def open(self) -> None:
        """See that the table is there and can be written."""
        self._maker = BatchMaker(str(self), self._table.open(), self._rules)
        self._turn.open()

    def close(self) -> None:
        """Let go of the delivery."""
        self._turn.close()

    def applied(self) -> Applied | None:
        """What the table holds; None: nothing was ever delivered."""
        return self._table.read()

    def forget(self) -> None:
        """Nothing was ever delivered, if the table is empty."""
        self._table.forget()

    def begin(self, log_id: str, step: int) -> None:
        """Of a table that holds nothing: `step` counts as its last one."""
        self._table.begin(log_id, step)

    def take(self) -> Applied | None:
        """Have the delivery, so that nobody else is at work; what the table holds. None: somebody else has it."""
        if not self._turn.take():
            return None
        self._table.clear()
        held = self._held()
        self._known = held.step
        return held

    def beat(self, last_in_log: int) -> None:  # noqa: ARG002 - nobody looks there
        """Say that this is at work. Raises ReplacedError."""
        self._turn.beat()

    def halted(self, reason: str) -> None:
        """There is nobody to tell: a table of files is for its rows."""

    def apply(
        self, step: int, its_print: str, committed_ms: int, records: PlacedRecords, follows: int
    ) -> Delivered:
        """Add a step whole, with its number, or nothing of it. follows: see `judge_step`. Raises ReplacedError, also if there
        is a step in between by now: whoever was replaced may still add the one that it had in hand, as long as nothing else
        was added, and that may be void. What iterating `records` raises."""
        self._turn.beat()
        before = self._held()
        if self._known < before.step < step:
            raise ReplacedError(f"{self}: another process has added step {before.step} meanwhile")
        verdict = judge_step(before, step, its_print, follows)
        if verdict is not StepVerdict.NEXT:
            if verdict is StepVerdict.DUPLICATE:
                self._known = max(self._known, step)
            return Delivered(verdict, before)
        if self._maker is None:
            raise DeliveryHaltedError(f"{self}: not open")
        now = Applied(self._pipeline, before.log_id, step, its_print)
        self._table.add(now, committed_ms, self._maker.batches(step, records, self._turn.beat))
        self._known = step
        return Delivered(verdict, before, self._maker.rows, self._maker.bad_rows)

    def _held(self) -> Applied:
        held = self._table.read()
        if held is None:
            raise DeliveryHaltedError(
                f"{self}: what was delivered to it is not known any more: it was made anew under the delivery. Start it again"
            )
        return held
