"""How a pipeline is, in the words of people: what `kcontrol status` prints and the HTTP
server answers, made in one place.

Each value is worked out from a projection; `now_ms` is the clock of whoever looks.
"""

from __future__ import annotations

from pydantic import Field

from kcontrol.core.model import NodePhase, PipelinePhase
from kcontrol.core.step.exchange import reports_of
from kcontrol.definition.durations import span_text
from kcontrol.views.base import Facts
from kcontrol.views.checkpoint_facts import checkpoint_warnings, node_hosts, saved_where
from kcontrol.views.input_facts import WaitingInput, waiting_inputs
from kcontrol.views.layout_facts import LayoutFacts, layout_of
from kcontrol.views.life import SILENT, UNKNOWN, is_silent, life_of
from kcontrol.views.node_facts import NodeFacts, nodes_of
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.retention import ReplayInput, replay_inputs
from kcontrol.views.schema_facts import SchemaFacts, schemas_of
from kcontrol.views.topic_safety import KnownSafety


class PipelineStatus(Facts):
    """Whether a pipeline runs, how far it is, what waits, and why it halted if it has."""

    pipeline: str
    phase: str = Field(
        description="starting, running, paused, stopped or halted; unknown if it ran and no coordinator is "
        "heard of."
    )
    desired: str = Field(description="What the user wants: running, paused or stopped.")
    reason: str = Field(description="Why it halted, or what it waits for; '' if there is nothing to say.")
    step: int = Field(description="The last committed step; 0 before the first.")
    step_ms: int | None = Field(description="The time of that step, milliseconds since 1970.")
    late_rows: int = Field(
        description="Rows that watermarks dropped in the newest steps, at most 1,000 of them."
    )
    first_step: int = Field(description="The oldest step that was not dropped from the log.")
    checkpoint: int = Field(description="The step of the newest checkpoint; 0 if there is none.")
    checkpoint_failure: str
    checkpoint_location: str = Field(description="Where state is saved; '' for nowhere.")
    replay: list[ReplayInput] = Field(description="By input, whether a replay would find what it needs.")
    warnings: list[str] = Field(description="What may go wrong one day, and what to do about it.")
    claim_epoch: int = Field(description="The offset of the newest claim; -1 before the first.")
    coordinator: str = Field(
        description="Host and process id of the coordinator that made it; '' before the first."
    )
    coordinator_silent_ms: int | None = Field(
        description="Milliseconds since it was last heard of; it speaks every two seconds. null before the "
        "first."
    )
    has_coordinator: bool = Field(
        description="Whether it has been heard of lately: whether anybody acts on requests."
    )
    clock_difference_ms: int = Field(
        description="The coordinator's wall clock less the time that steps go by, if one of them is wrong; "
        "else 0."
    )
    fingerprint: str
    inputs: list[WaitingInput]
    nodes: list[NodeFacts]
    layout: LayoutFacts
    schemas: list[SchemaFacts] = Field(
        description="Those of the schema registry that the log holds, so that its steps need no registry."
    )
    unsafe: list[str] = Field(
        default=[],
        description="What is not safe about its topics, for a pipeline that claims exactly once, as far as "
        "it is known: Kafka is asked beside the answers, at most once a minute.",
    )
    unsafe_age_ms: int | None = Field(
        default=None, description="Milliseconds since Kafka has answered that; null if it never has."
    )


class Trouble(Facts):
    """One thing that is wrong now."""

    where: str = Field(description="pipeline, node N, or checkpoint.")
    kind: str = Field(
        description="halted, failed, attempt, or checkpoint; with the kind of failure if there is one."
    )
    what: str = Field(description="What went wrong, where, and what to do.")
    root: bool = Field(description="Whether it is why the pipeline has halted.")


def status_of(projection: PipelineProjection, now_ms: int) -> PipelineStatus:
    """Raises NotFoundError when there is no such pipeline."""
    view, committed, spec, life = (
        projection.view,
        projection.committed,
        projection.spec(),
        life_of(projection, now_ms),
    )
    said, desired = view.status(), view.desired()
    replay = replay_inputs(projection)
    return PipelineStatus(
        pipeline=projection.pipeline,
        phase=life.phase,
        desired=desired.mode.value if desired else "running",
        reason=life.reason,
        step=committed.step,
        step_ms=committed.now_ms if committed.last else None,
        late_rows=projection.late_rows(),
        first_step=committed.first,
        checkpoint=committed.checkpoint,
        checkpoint_failure=said.checkpoint_failure if said else "",
        checkpoint_location=saved_where(spec),
        replay=replay,
        warnings=[
            *checkpoint_warnings(spec, committed.first, node_hosts(view)),
            *(one.warning for one in replay if one.warning),
        ],
        claim_epoch=view.epoch,
        coordinator=life.coordinator,
        coordinator_silent_ms=life.silent_ms,
        has_coordinator=life.is_led,
        clock_difference_ms=said.clock_difference_ms if said else 0,
        fingerprint=spec.fingerprint,
        inputs=waiting_inputs(projection, now_ms),
        nodes=nodes_of(projection, now_ms),
        layout=layout_of(projection),
        schemas=schemas_of(view),
    )


def with_safety(status: PipelineStatus, known: KnownSafety) -> PipelineStatus:
    """The same, with what is known of the topics."""
    return status.model_copy(update={"unsafe": list(known.sentences), "unsafe_age_ms": known.age_ms})


def troubles_of(projection: PipelineProjection, now_ms: int) -> list[Trouble]:
    """What is wrong now, the root of a halt first."""
    view, spec, life = projection.view, projection.spec(), life_of(projection, now_ms)
    said, found = view.status(), []
    if said is not None and said.phase is PipelinePhase.HALTED:
        found.append(Trouble(where="pipeline", kind="halted", what=life.reason, root=True))
    elif said is not None and life.reason:
        found.append(Trouble(where="pipeline", kind=life.phase, what=life.reason, root=life.phase == UNKNOWN))
    for node in range(spec.nodes):
        state = view.node_state(node)
        if is_silent(projection, node, now_ms):
            what = (
                "nothing was heard of it for "
                f"{span_text(projection.signs.silent_ms(node, now_ms) or 0)}; start it again"
            )
            found.append(Trouble(where=f"node {node}", kind=SILENT, what=what, root=False))
        if state is not None and state.phase is NodePhase.FAILED:
            found.append(Trouble(where=f"node {node}", kind="failed", what=state.error, root=False))
        for written in reports_of(view, spec, node):
            if written.failure is None or written.step != projection.committed.step + 1:
                continue
            what = f"step {written.step}, attempt {written.token.attempt}: {written.error}"
            found.append(
                Trouble(where=f"node {node}", kind=f"attempt: {written.failure.value}", what=what, root=False)
            )
    if said is not None and said.checkpoint_failure:
        found.append(Trouble(where="checkpoint", kind="checkpoint", what=said.checkpoint_failure, root=False))
    return found
