"""What a controller's log says about the broker that was killed."""

from __future__ import annotations

import pytest

from kcontrol.adapters.kafka.embedded.former_life import is_fenced

ACTIVE = "[QuorumController id=1] Activated periodic tasks: electPreferred, maybeFenceStaleBroker"
REGISTERED = (
    "Replayed initial RegisterBrokerRecord for broker 1: RegisterBrokerRecord(brokerId=1, "
    "features=[], fenced=true)"
)
UNFENCED = (
    "Replayed BrokerRegistrationChangeRecord modifying it: "
    "BrokerRegistrationChangeRecord(brokerId=1, fenced=-1)"
)
UNCHANGED = (
    "Replayed BrokerRegistrationChangeRecord modifying it: "
    "BrokerRegistrationChangeRecord(brokerId=1, fenced=0)"
)
FENCED = (
    "Replayed BrokerRegistrationChangeRecord modifying it: BrokerRegistrationChangeRecord(brokerId=1, "
    "fenced=1)"
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], False),
        ([REGISTERED, UNFENCED, FENCED], False),
        ([ACTIVE], True),
        ([REGISTERED, ACTIVE], True),
        ([REGISTERED, UNFENCED, ACTIVE], False),
        ([REGISTERED, UNFENCED, FENCED, REGISTERED, UNFENCED, ACTIVE], False),
        ([REGISTERED, UNFENCED, ACTIVE, UNCHANGED], False),
        ([REGISTERED, UNFENCED, ACTIVE, FENCED], True),
    ],
)
def test_the_broker_is_fenced_when_the_controller_is_in_charge_and_says_so(
    lines: list[str], expected: bool
) -> None:
    assert is_fenced(lines) is expected
