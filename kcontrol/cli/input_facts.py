"""What `kcontrol status` says of one input."""

from __future__ import annotations

from kcontrol.definition.durations import span_text
from kcontrol.views.input_facts import WaitingInput
from kcontrol.wire.addresses import TOPIC


def input_line(facts: WaitingInput) -> str:
    """For people, on one line. Its kind is named if it is no topic, as in the Console."""
    since = (
        f", the oldest for {span_text(facts.waiting_ms)}"
        if facts.waiting and facts.waiting_ms is not None
        else ""
    )
    kind = "" if facts.kind == TOPIC else f" ({facts.kind})"
    said = [f"{facts.input}{kind}: {facts.waiting:,} offsets wait{since}"]
    if facts.unasked:
        said[-1] += f", as far as its nodes have said (Kafka could not be asked: {facts.unasked})"
    if facts.paused:
        said.append("paused")
    if not facts.noted:
        said[-1] += f" ({'pausing' if facts.paused else 'resuming'} it waits for a coordinator)"
    for skip in facts.skips:
        waits = f"; {skip.waits_for}" if skip.waits_for else ""
        offsets = f"offsets {skip.from_} to {skip.to - 1} of partition {skip.partition}"
        said.append(f"the next step skips {offsets}, by {skip.by}{waits}")
    return "; ".join(said)
