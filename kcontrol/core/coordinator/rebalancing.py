"""State that is divided anew by itself: when one node has come to have much more of it than the others.

The coordinator looks at each checkpoint, whose parts say what each shard weighs. When a node has had too much in enough of them
in a row, and the layout has been still for long enough, it asks for a change as anybody may, by the number of that change; what
becomes of it is decided as of any (changing.py). It asks behind what people have asked for: a request that it had not read
makes its own void. Another coordinator begins to look anew, so that nothing of this has to be remembered.
"""

from __future__ import annotations

from kcontrol.core.coordinator import changing
from kcontrol.core.coordinator.parts.balancing import NOTHING_LOOKED_AT
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import Publish
from kcontrol.core.model import Checkpoint, LayoutRequest, NodeJoin, PipelineSpec, RebalanceSpec
from kcontrol.core.step.assignment import Owners, moves, owners_of
from kcontrol.core.step.balance import Fullest, evened, fullest

_MB = 1_000_000


def tend(turn: Turn, spec: PipelineSpec) -> None:
    """With all nodes in place: look at the newest checkpoint, and ask for a change if it is time."""
    state, policy = turn.state, spec.rebalance
    if policy is None or spec.nodes == 1 or not spec.stateful:
        state.balancing = state.balancing.off()
        return
    if state.balancing is NOTHING_LOOKED_AT:
        state.balancing = state.balancing.anew(state.now_ms)
    request = changing.pending_change(state)
    if request is not None:
        state.balancing = state.balancing.begun(state.now_ms, request.why)
        return
    saved = _newest(state, spec)
    if saved is None:
        state.balancing = state.balancing.saying("")
        return
    if saved.step <= state.balancing.judged:
        return
    owners = owners_of(spec)
    weights = _weights(state, saved, owners)
    full = None if weights is None else fullest(owners, weights)
    text = _told(full) if full is not None and full.has_too_much(policy) else ""
    state.balancing = state.balancing.seen(saved.step, text)
    if weights is not None and state.balancing.uneven:
        _ask(turn, spec, policy, weights)


def _newest(state: CoordinatorState, spec: PipelineSpec) -> Checkpoint | None:
    """The newest checkpoint, if it was saved by the layout in force."""
    saved = state.steps.checkpoints[-1] if state.steps.checkpoints else None
    number = 0 if saved is None or saved.assignment is None else saved.assignment.number
    return saved if number == spec.assignment else None


def _weights(state: CoordinatorState, saved: Checkpoint, owners: Owners) -> list[int] | None:
    """Bytes by shard; None: not all nodes are those that have saved it, or say what their shards weigh."""
    held: dict[int, dict[int, int]] = {}
    for part in saved.parts:
        said = state.view.checkpoint_part(part.node)
        if said is None or (said.incarnation, said.manifest) != (part.incarnation, part.manifest):
            return None
        held[part.node] = {each.shard: each.size_bytes for each in said.shards}
    weights = [held.get(node, {}).get(shard) for shard, node in enumerate(owners)]
    known = [weight for weight in weights if weight is not None]
    return known if len(known) == len(owners) else None


def _ask(turn: Turn, spec: PipelineSpec, policy: RebalanceSpec, weights: list[int]) -> None:
    state, owners = turn.state, owners_of(spec)
    balancing = state.balancing
    if balancing.uneven < policy.checkpoints or state.now_ms - balancing.still_ms < policy.every_ms:
        return
    prevented = _prevented(state, spec)
    after = None if prevented else evened(owners, weights)
    if after is None:
        why = prevented or "no shard can be moved that would help"
        state.balancing = balancing.saying(f"{balancing.text}: {why}")
        return
    moved, asked = moves(owners, after), state.view.user_layout_request()
    size = sum(weights[move.shard] for move in moved)
    why = f"{balancing.text}: {len(moved)} shards with {size / _MB:.1f} MB are to move"
    request = LayoutRequest(
        pipeline=state.pipeline,
        request_id=f"rebalance-{state.tenure.epoch}-{balancing.judged}",
        number=changing.next_number(state),
        nodes=spec.nodes,
        timeout_ms=policy.timeout_ms,
        owners=after,
        why=why,
        after="" if asked is None else asked.request_id,
    )
    state.balancing = balancing.begun(state.now_ms, why)
    turn.effects.append(Publish((request,)))


def _prevented(state: CoordinatorState, spec: PipelineSpec) -> str:
    """Why nothing is moved now, or ''."""
    asked = state.view.user_layout_request()
    if asked is not None and asked.way and (asked.left or asked.whole not in (0, spec.nodes)):
        return "an upgrade is not over"
    if spec.kept_in_place:
        named = ", ".join(map(repr, spec.kept_in_place))
        return f"query {named} keeps state of the partitions that each node reads, which can't be moved"
    lives = {(node, state.view.incarnation(node)) for node in range(spec.nodes)}
    hosts = {
        each.record.host
        for each in state.view.latest.values()
        if isinstance(each.record, NodeJoin) and (each.record.node, each.offset) in lives
    }
    if len(hosts) > 1 and not spec.checkpoint.shared:
        return "its nodes are on several hosts, and checkpoints are not known to be readable by all (shared=True)"
    return ""


def _told(full: Fullest) -> str:
    times = float(full.size_bytes / full.mean_bytes)
    return f"node {full.node} has {full.size_bytes / _MB:.1f} MB of state, {times:.2f} times the mean of all nodes"
