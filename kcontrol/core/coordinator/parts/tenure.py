"""The tenure: from one assignment to the resignation."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Tenure:
    """Who is in charge, and by which claim."""

    uuid: str = ""
    host: str = ""
    process_id: int = 0
    claims: int = 0
    """How many claims this tenure has published; the second and later ones have the count in their uuid."""
    epoch: int = -1
    """Offset of the own claim; -1 while it has not been seen."""
    overdue_answers: int = 0
    """Answers to effects of an earlier tenure that are still to come and mean nothing any more."""
    cleared: bool = False
    """The predecessors' commands have been forgotten."""
    inherited: bool = False
    """What the predecessors' status says has been taken over."""

    @property
    def claim_uuid(self) -> str:
        """The uuid in the newest claim."""
        return self.uuid if self.claims <= 1 else f"{self.uuid}.{self.claims}"

    def assigned(self, uuid: str, host: str, process_id: int) -> Tenure:
        """A new one begins; answers that the one before is owed are still to come."""
        return Tenure(
            uuid,
            host,
            process_id,
            epoch=self.epoch,
            overdue_answers=self.overdue_answers,
            cleared=self.cleared,
        )

    def claiming(self) -> Tenure:
        """A claim is published."""
        return replace(self, claims=self.claims + 1, epoch=-1, cleared=False)

    def claimed(self, offset: int) -> Tenure:
        """The newest claim was read there."""
        return replace(self, epoch=offset)

    def left_unanswered(self) -> Tenure:
        """It ends while a transactional effect is under way."""
        return replace(self, overdue_answers=self.overdue_answers + 1)

    def answered_late(self) -> Tenure:
        """An answer to an earlier tenure has come."""
        return replace(self, overdue_answers=self.overdue_answers - 1)

    def cleared_up(self) -> Tenure:
        """The predecessors' commands are gone."""
        return replace(self, cleared=True)

    def took_over(self) -> Tenure:
        """What the predecessors have left is known."""
        return replace(self, inherited=True)
