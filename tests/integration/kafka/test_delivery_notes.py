"""What two processes of a delivery tell, on a real broker, as a server reads it."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes
from kcontrol.adapters.kafka.admin.kept_deliveries import KeptDeliveries
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.unit.views.test_deliveries import TOLD, told


def test_who_delivers_and_who_stands_by_are_read_as_they_were_told(settings: ClusterSettings) -> None:
    own = settings.model_copy(update={"prefix": f"d{secrets.token_hex(4)}"})
    ensure_topics(own, "p")
    notes = DeliveryNotes(own, "p")
    assert notes.read() == []
    notes.tell(TOLD)
    notes.tell(told("b", "standing_by", step=-1))
    (found,) = notes.read()
    assert replace(found, standing_by=()) == TOLD
    assert [each.who for each in found.standing_by] == ["b"]

    async def served() -> None:
        kept = KeptDeliveries(own, wait_s=HANG_S)
        seen = await kept.of("p")
        assert (list(seen.told), seen.unknown) == ([found], "")
        await kept.close()

    asyncio.run(served())
