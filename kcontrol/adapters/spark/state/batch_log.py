"""What is written down of the batches of a query whose plan is kept, as Spark would write it down.

The plan of a batch and its record are both written when the step is committed: what a step reads is said by the steps topic.
So Spark finds a batch that it may go on after, with its own logs, when the query is next run as a stream, and whoever opens
the directory at an older step, pins it or copies it finds what is always there.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kcontrol.adapters.spark.internals import StoreIds
from kcontrol.adapters.spark.state.batches import batch_of
from kcontrol.adapters.spark.state.formats import plan_text, record_text, recorded_settings, unique_ids

_LOGS = ("offsets", "commits")
_ID = "metadata"


class BatchLog:
    """Of one query, from its start to its end. sources: how many streams its plan reads. retained: how many batches Spark
    would keep."""

    def __init__(self, query: Path, sources: int, retained: int) -> None:
        self._query, self._sources, self._retained = query, sources, retained
        self._batch = -1

    @property
    def version(self) -> int:
        """Of the state after the newest batch; 0 before the first."""
        return self._batch + 1

    def open(self, step: int) -> None:
        """Go on after a step. Make what Spark makes of an empty directory, and delete what it would have deleted.

        Raises FileNotFoundError, and ConfigurationError for a version that is not known.
        """
        self._batch = -1 if step == 0 else batch_of(self._query, step)
        for log in _LOGS:
            (self._query / log).mkdir(exist_ok=True)
            newest = max(self._batches(log), default=0)
            for batch in self._batches(log):
                if batch < newest - self._retained:
                    self._delete(log, batch)
        if not (self._query / _ID).is_file():
            self._put(self._query / _ID, json.dumps({"id": str(uuid.uuid4())}))

    def settings(self) -> dict[str, str]:
        """The settings that the newest batch was run with and that hold for the state; none before the first.

        Raises as `open`.
        """
        return {} if self._batch < 0 else recorded_settings(self._query / "offsets" / str(self._batch))

    def ids(self) -> dict[int, StoreIds]:
        """By operator, those of the state after the newest batch. Raises as `open`."""
        if self._batch < 0:
            return {}
        found: dict[int, dict[int, tuple[str, ...]]] = {}
        for (operator, partition), ids in unique_ids(self._query / "commits" / str(self._batch)).items():
            found.setdefault(int(operator), {})[int(partition)] = ids
        return {
            operator: tuple(stores[number] for number in sorted(stores)) for operator, stores in found.items()
        }

    def write(self, step: int, settings: str, ids: Mapping[int, StoreIds]) -> None:
        """A committed step, as the next batch. settings: the second line of the plan. Raises OSError."""
        batch = self._batch + 1
        told: dict[str, Any] = {str(operator): stores for operator, stores in ids.items()}
        self._put(self._query / "offsets" / str(batch), plan_text(settings, [step] * self._sources))
        self._put(self._query / "commits" / str(batch), record_text(0, told))
        self._batch = batch
        for log in _LOGS:
            self._delete(log, batch - self._retained - 1)

    def _batches(self, log: str) -> list[int]:
        return [int(path.name) for path in (self._query / log).iterdir() if path.name.isdecimal()]

    def _delete(self, log: str, batch: int) -> None:
        with suppress(FileNotFoundError):
            (self._query / log / str(batch)).unlink()

    @staticmethod
    def _put(path: Path, text: str) -> None:
        """Whole or not at all."""
        made = path.with_name(f".{path.name}.tmp")
        made.write_text(text, encoding="utf-8")
        made.replace(path)
