"""What `kcontrol status` says of deliveries."""

from __future__ import annotations

import json

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes
from kcontrol.definition.durations import span_text
from kcontrol.errors import ClusterError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.deliveries import DeliveriesSeen, DeliveryFacts, delivery_facts
from kcontrol.views.pipeline_facts import PipelineStatus


def told_deliveries(cluster: ClusterSettings, facts: PipelineStatus) -> tuple[list[DeliveryFacts], str]:
    """What is known, and why no more is. facts: the pipeline's, as of which it is told."""
    try:
        seen = DeliveriesSeen(DeliveryNotes(cluster, facts.pipeline).read(), 0)
    except ClusterError as error:
        seen = DeliveriesSeen(unknown=str(error))
    return delivery_facts(seen, facts.step, SystemClock().now_ms()), seen.unknown


def delivery_line(told: DeliveryFacts) -> str:
    """One, after `delivery`."""
    behind = "" if told.behind is None else f", step {told.step}, {told.behind} behind"
    if told.lag_s >= 1 and told.behind:
        behind += f" by {span_text(int(told.lag_s * 1000))}"
    heard = f"; not heard of for {span_text(told.silent_ms)}" if told.silent else ""
    waiting = f"; standing by: {', '.join(told.standing_by)}" if told.by and told.standing_by else ""
    why = f": {told.reason}" if told.reason else ""
    state = told.state.replace("_", " ")
    return (
        f"{told.output} to {told.kind} {told.target}, {told.guarantee}: {state}{behind}{heard}{waiting}{why}"
    )


def status_json(facts: PipelineStatus, told: list[DeliveryFacts], unknown: str) -> str:
    """For --json: the pipeline with its deliveries, on one line."""
    whole = {
        **json.loads(facts.model_dump_json(by_alias=True)),
        "deliveries": [each.model_dump() for each in told],
        "deliveries_unknown": unknown,
    }
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
