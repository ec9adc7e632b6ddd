"""Which steps in the log are void, and what has made them so, for whoever looks at one. The fold of the log knows it only as
far back as a node can begin."""

from __future__ import annotations

from pydantic import Field

from kcontrol.core.log.resets import Resets, void_by, with_reset
from kcontrol.core.model import StepBoundary
from kcontrol.views.base import Facts


class VoidSince(Facts):
    """The reset that has made a step void: what the step wrote is still there, and counts no more."""

    step: int = Field(description="The reset, which is a step itself.")
    to_step: int = Field(description="The step that was gone back to.")
    by: str = Field(description="Who asked for it, as they said.")
    why: str = Field(description="Why, as they said.")
    at_ms: int = Field(
        description="When it was made, milliseconds since 1970, by the clock of whoever made it."
    )


class SeenResets:
    """Of the resets that it has seen, in the order of the log."""

    def __init__(self) -> None:
        self._made: dict[int, VoidSince] = {}
        self._resets: Resets = ()

    def see(self, boundary: StepBoundary) -> None:
        """The next step of the log, a reset or not."""
        reset = boundary.reset
        if reset is not None:
            told = VoidSince(
                step=boundary.step,
                to_step=reset.to_step,
                by=reset.by,
                why=reset.why,
                at_ms=boundary.committed_ms,
            )
            self._keep({**self._made, boundary.step: told})

    def forget_before(self, step: int) -> None:
        """Steps before this one were dropped from the log."""
        self._keep({number: told for number, told in self._made.items() if number >= step})

    def forget_from(self, step: int) -> None:
        """This one and those after it are seen anew."""
        self._keep({number: told for number, told in self._made.items() if number < step})

    def since(self, step: int) -> VoidSince | None:
        """What has made a step void; None if it counts."""
        reset = void_by(self._resets, step)
        return None if reset is None else self._made[reset]

    def _keep(self, made: dict[int, VoidSince]) -> None:
        if made != self._made:
            self._made, self._resets = made, ()
            for each in made.values():
                self._resets = with_reset(self._resets, each.to_step, each.step)
