"""The plan of a sender whose rows are sent by the tasks that read them: nothing in it differs from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from kcontrol.adapters.spark.internals import PlannedFrame, StoreIds


class SentPlan:
    """As `KeptPlan`, without state. frame: what reads and sends. tasks: how many of its partitions are run, the first ones."""

    runs_some = False
    partitions = 0

    def __init__(self, frame: DataFrame, tasks: int) -> None:
        self._frame, self._tasks = PlannedFrame(frame), range(tasks)

    def move_to(self, state: str) -> None:
        """See `KeptPlan`."""

    def begin(self, version: int, ids: Mapping[int, StoreIds]) -> None:
        """See `KeptPlan`."""

    def run(self) -> None:
        """See `KeptPlan`."""
        self._frame.run(self._tasks)

    def ids(self) -> dict[int, list[dict[str, Any]]]:
        """See `KeptPlan`."""
        return {}

    def stores(self, operator: int) -> int:  # noqa: ARG002 - a KeptPlan needs it
        """See `KeptPlan`."""
        return 0

    def lost_rows(self) -> tuple[int, int] | None:
        """See `KeptPlan`."""
        return None
