"""What a table of files says of the delivery to it, beside the number of the last step."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kcontrol.core.step.following import Applied
from kcontrol.errors import DeliveryHaltedError, TargetAwayError


@dataclass(frozen=True, slots=True)
class TableDelivery:
    """start: the step that counted as the last one when nothing was delivered yet. generation: another one each time that a
    delivery begins, so that what one of before still has in hand is of nobody."""

    pipeline: str
    output: str
    log_id: str
    start: int
    generation: str

    def text(self) -> str:
        """As it is kept."""
        return json.dumps(asdict(self), sort_keys=True)

    def applied(self, step: int | None, its_print: str = "") -> Applied:
        """step: the last one that was added; None: none was."""
        return Applied(self.pipeline, self.log_id, self.start if step is None else step, its_print)


def table_delivery(text: str, generation: str, where: str) -> TableDelivery:
    """generation: of the delivery that this process goes on with; '' for any. Raises TargetAwayError: it is of another one.
    DeliveryHaltedError: it is damaged, or of a version that is not known here."""
    try:
        found = TableDelivery(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise DeliveryHaltedError(
            f"{where}: what it says of its delivery can't be read ({error}): {text[:200]}"
        ) from error
    if generation not in ("", found.generation):
        raise TargetAwayError(f"{where}: the delivery was begun anew by another process")
    return found


def gone(where: str) -> TargetAwayError:
    """Of a table that this process has delivered to, and that is not there any more: nothing is made in its place."""
    return TargetAwayError(
        f"{where}: the table is not there any more: is its disk mounted? If it was removed, start the delivery again"
    )
