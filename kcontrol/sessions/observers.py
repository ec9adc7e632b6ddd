"""Who may look on while sessions work, for metrics. They are told and never asked; they
return at once and raise nothing."""

from __future__ import annotations

from typing import Protocol

from kcontrol.core.coordinator.decide import CoordinatorState


class CoordinatorObserver(Protocol):
    """Looks on at the sessions of one process."""

    def began(self, pipeline: str) -> None:
        """A session takes over."""
        ...

    def moved(self, before: CoordinatorState, after: CoordinatorState) -> None:
        """One event has been decided; neither value may be kept or changed."""
        ...

    def ended(self, pipeline: str) -> None:
        """The session has resigned, crashed or was cancelled."""
        ...


class NodeObserver(Protocol):
    """Looks on at one node."""

    def took(self, phase: str, seconds: float) -> None:
        """A phase of a step that was not a replay is over."""
        ...

    def replayed(self) -> None:
        """A step has been replayed, and agreed with the log."""
        ...


class Nobody:
    """Nobody looks on."""

    def began(self, pipeline: str) -> None:
        pass

    def moved(self, before: CoordinatorState, after: CoordinatorState) -> None:
        pass

    def ended(self, pipeline: str) -> None:
        pass

    def took(self, phase: str, seconds: float) -> None:
        pass

    def replayed(self) -> None:
        pass


NOBODY = Nobody()
