"""`kcontrol`, but it kills itself with SIGKILL at a chosen record of a region, of a hold or of a reset, of all that it
writes.

CRASH_AT=7 python -m tests.support.crashing_region region-controller ...

Odd numbers: before the record (1: the first); even ones: after it was acknowledged (2: the first). With CRASH_BY=SIGSTOP
it stops there instead, and goes on when it is told to: so that something else can be killed at that record. With
CRASH_AFTER_RESETS=1 it does so once it has reset so many pipelines, wherever that is.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Sequence
from typing import Any

from kcontrol.adapters.kafka.regions.log import KafkaRegionLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.held_pipeline import HeldPipeline
from kcontrol.cli.main import main
from kcontrol.core.regions.records import RegionBeat

_points, _resets = itertools.count(1), itertools.count(1)


def _reach() -> None:
    if next(_points) == int(os.environ["CRASH_AT"]):
        os.kill(os.getpid(), signal.Signals[os.environ.get("CRASH_BY", "SIGKILL")])


def _instrument() -> None:
    write_log, write_hold = KafkaRegionLog.write, HeldPipeline._write

    async def writing(self: Any, records: Sequence[Any], forget: Sequence[str] = ()) -> None:
        if isinstance(records[0], RegionBeat):
            await write_log(self, records, forget)
            return
        _reach()
        await write_log(self, records, forget)
        _reach()

    async def holding(self: Any, *arguments: Any, **rest: Any) -> None:
        _reach()
        await write_hold(self, *arguments, **rest)
        _reach()

    commit_reset = KafkaTransaction.commit_reset

    async def resetting(self: Any, *arguments: Any, **rest: Any) -> None:
        _reach()
        await commit_reset(self, *arguments, **rest)
        if next(_resets) == int(os.environ.get("CRASH_AFTER_RESETS", "0")):
            os.kill(os.getpid(), signal.SIGKILL)
        _reach()

    KafkaTransaction.commit_reset = resetting  # type: ignore[method-assign]
    KafkaRegionLog.write = writing  # type: ignore[method-assign]
    HeldPipeline._write = holding  # type: ignore[method-assign]


if __name__ == "__main__":
    _instrument()
    main()
