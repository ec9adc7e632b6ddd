"""Whether Kafka still has the input that a replay would need, and whether retention is about to take it.

A node that has to replay begins at the oldest checkpoint that is kept at worst, or at step 1 if there is
none. What Kafka has and how long it keeps it is asked now and then by whoever answers; what was not asked, or
not answered, is unknown and says so.
"""

from __future__ import annotations

from pydantic import Field

from kcontrol.core.model import InputSpec
from kcontrol.core.step.offsets import next_offset
from kcontrol.sessions.ports import Kept
from kcontrol.views.base import Facts
from kcontrol.views.pipeline_projection import PipelineProjection

WARNING_MS = 24 * 3_600_000
"""So long before retention may take something it is warned of; of short retentions, a quarter of their time
before."""
WARNING_PART = 4


def warning_ms(retention_ms: int) -> int:
    """How long before the end of a retention of so many milliseconds it is warned of."""
    return min(WARNING_MS, retention_ms // WARNING_PART)


class ReplayInput(Facts):
    """Whether a replay would find an input."""

    input: str
    after_step: int = Field(description="The replay that goes back furthest begins after this step.")
    left: int | None = Field(
        description="Offsets that Kafka still has before the first one that such a replay, or else the "
        "next step, reads, of the partition with the fewest; negative: so many are gone. null "
        "if it is not known."
    )
    expiring: bool | None = Field(
        description="Whether retention.ms is about to take what is needed. null if it is not known."
    )
    unknown: str = Field(description="Why it is not known; '' if it is.")
    warning: str = Field(description="What may go wrong, and what to do; '' if there is nothing to say.")


def replay_inputs(projection: PipelineProjection) -> list[ReplayInput]:
    """By input, from what Kafka was last asked."""
    kept = projection.kept
    return [
        _of(projection, item, kept.get(item.topic, "Kafka has not been asked yet"))
        for item in projection.spec().inputs
    ]


def _of(projection: PipelineProjection, item: InputSpec, kept: Kept | str) -> ReplayInput:
    committed, stateful = projection.committed, projection.spec().stateful
    after = committed.step if not stateful else committed.saved[0].step if committed.saved else 0
    if isinstance(kept, Kept) and kept.topic_id != item.topic_id:
        kept = (
            f"topic {item.topic!r} was deleted or recreated: it is not the one that the pipeline reads "
            "any more"
        )
    if isinstance(kept, str):
        return ReplayInput(
            input=item.name, after_step=after, left=None, expiring=None, unknown=kept, warning=""
        )
    needed = [_needed(projection, item, partition, after) for partition in range(len(kept.earliest))]
    left = min((need - first for need, first in zip(needed, kept.earliest, strict=True)), default=0)
    warning, expiring = "", False
    for partition, (need, first) in enumerate(zip(needed, kept.earliest, strict=True)):
        expires = kept.expiring is not None and need < kept.expiring[partition]
        expiring = expiring or expires
        if not warning and (need < first or expires or (kept.retention_bytes >= 0 and need == first > 0)):
            warning = _warning(item, partition, need, first, after, kept, expires)
    return ReplayInput(
        input=item.name, after_step=after, left=left, expiring=expiring, unknown="", warning=warning
    )


def _needed(projection: PipelineProjection, item: InputSpec, partition: int, after: int) -> int:
    """The first offset that a replay from there reads; if it reads none, the first that no step has read."""
    first = projection.index.first_read_after(after, item.name, partition)
    return next_offset(projection.committed, item, partition) if first is None else first


def _warning(
    item: InputSpec, partition: int, need: int, first: int, after: int, kept: Kept, expires: bool
) -> str:
    where = f"input {item.name}, topic {item.topic!r}, partition {partition}"
    who = f"a replay that begins after step {after}" if after else "a replay from step 1"
    if need < first:
        return (
            f"{where}: Kafka has taken offsets {need} to {first - 1}, which {who}, or the next step, needs: "
            "a node that has lost its state can't make it again; keep checkpoints on shared storage, and "
            "give the topic a longer retention"
        )
    limit = f"retention.ms = {kept.retention_ms}" if expires else f"retention.bytes = {kept.retention_bytes}"
    when = f"within {warning_ms(kept.retention_ms) // 60_000} min" if expires else "with the next segment"
    return (
        f"{where}: {limit} may take offset {need} {when}, which {who}, or the next step, needs; give the "
        "topic a longer retention, or make checkpoints more often"
    )
