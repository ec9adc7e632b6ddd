"""What `kcontrol status` says of deliveries."""

from __future__ import annotations

import json
from dataclasses import asdict

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.deliveries import DeliveryNotes, ToldDelivery
from kcontrol.definition.durations import span_text
from kcontrol.errors import ClusterError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_facts import PipelineStatus

SILENT_MS = 30_000
"""A delivery tells of itself every ten seconds at least."""


def told_deliveries(cluster: ClusterSettings, pipeline: str) -> tuple[list[ToldDelivery], str]:
    """What is known, and why no more is."""
    try:
        return DeliveryNotes(cluster, pipeline).read(), ""
    except ClusterError as error:
        return [], str(error)


def delivery_line(told: ToldDelivery, committed: int) -> str:
    """One, after `delivery`. committed: the pipeline's last step."""
    behind = "" if told.step < 0 else f", step {told.step}, {max(0, committed - told.step)} behind"
    if told.lag_s >= 1 and committed > told.step >= 0:
        behind += f" by {span_text(int(told.lag_s * 1000))}"
    silent_ms = SystemClock().now_ms() - told.at_ms
    heard = f"; not heard of for {span_text(silent_ms)}" if silent_ms > SILENT_MS else ""
    why = f": {told.reason}" if told.reason else ""
    state = told.state.replace("_", " ")
    return f"{told.output} to {told.kind} {told.target}, {told.guarantee}: {state}{behind}{heard}{why}"


def status_json(facts: PipelineStatus, told: list[ToldDelivery]) -> str:
    """For --json: the pipeline with its deliveries, on one line."""
    whole = {
        **json.loads(facts.model_dump_json(by_alias=True)),
        "deliveries": [asdict(each) for each in told],
    }
    return json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
