"""When state is divided anew over the nodes, without anybody asking for it."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Annotated

from pydantic import Field

from kcontrol.core.model import RebalanceSpec
from kcontrol.definition.durations import PositiveDuration, duration_ms
from kcontrol.definition.errors import definition


@definition
class Rebalance:
    """Has the coordinator divide state anew over the nodes of a pipeline that runs, when one has come to have much more than
    the others; least is moved, and steps stand still for as long as in any change of the layout (seconds).

    every: between two changes of the layout, at least. when: a node has too much when it has so many times the mean of all
        nodes, by the newest checkpoint.
    checkpoints: in so many of them in a row, before anything is done. least_bytes: a node that has less than this beyond the
        mean does not have too much.
    timeout: for all nodes to make ready; then it is given up, and tried again after `every`.
    """

    _: KW_ONLY
    every: PositiveDuration = "10 min"
    when: Annotated[float, Field(ge=1.2, le=100)] = 1.3
    checkpoints: Annotated[int, Field(ge=1, le=1_000)] = 3
    least_bytes: Annotated[int, Field(ge=0)] = 16_000_000
    timeout: PositiveDuration = "10 min"

    def to_spec(self) -> RebalanceSpec:
        """The same in whole numbers."""
        return RebalanceSpec(
            every_ms=duration_ms(self.every),
            when_percent=round(self.when * 100),
            checkpoints=self.checkpoints,
            least_bytes=self.least_bytes,
            timeout_ms=duration_ms(self.timeout),
        )
