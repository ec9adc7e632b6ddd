"""The ids of state stores that a job has made, compared with those that it was given."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from kcontrol.adapters.spark.internals import NOT_RUN, StoreIds
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError


def checked_ids(
    who: str,
    operator: int,
    version: int,
    before: StoreIds | None,
    told: Sequence[Mapping[str, Any]],
    others: Collection[int] = (),
    stores: int = 1,
) -> StoreIds:
    """The ids of the stores of an operator as of `version`, which the tasks of its partitions have told.

    before: those that the partitions were on; None if there was no state. told: as `KeptPlan.ids` gives it. others: partitions
    that were not to be run; they get `NOT_RUN`, for each of `stores` where no partition has told how many there are.
    Raises StepFailedError (LOST) unless each of the others has made this version, on exactly the ids that it was given: Spark's
    streaming would go on with what it is told.
    """
    count = len(told) + len(others) if before is None else len(before)
    numbers = [number for number in range(count) if number not in others]
    if len(told) != len(numbers):
        raise StepFailedError(
            FailureKind.LOST,
            f"{who}: {len(told)} of {len(numbers)} partitions of operator {operator} were run",
        )
    run: dict[int, tuple[str, ...]] = {}
    for number, one in zip(numbers, told, strict=True):
        ids, base = one["stateStoreCkptId"], one["baseStateStoreCkptId"]
        expected = None if before is None else before[number]
        wrong = (
            (one["partitionId"], one["batchVersion"]) != (number, version)
            or not ids
            or (expected is not None and tuple(base or ()) != expected)
        )
        if wrong:
            raise StepFailedError(
                FailureKind.LOST,
                f"{who}: partition {number} of operator {operator} was to make version {version} of its state "
                f"on {expected}, and made {dict(one)}",
            )
        run[number] = tuple(ids)
    nothing = (NOT_RUN,) * max(map(len, run.values()), default=stores)
    return tuple(run.get(number, nothing) for number in range(count))
