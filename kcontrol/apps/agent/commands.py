"""What an agent needs of whoever knows what is run for units."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from kcontrol.core.cluster.model import ClusterJob, Unit
from kcontrol.core.model import AgentPlacement


class Commands(Protocol):
    """What is run for units."""

    def __call__(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str] | None:
        """None: it is not known yet. Raises ConfigurationError if it can't be run here, RetriableError if that can't be told
        now."""
        ...

    def keep(self, packages: Collection[str]) -> None:
        """Others belong to no job that is active."""
        ...
