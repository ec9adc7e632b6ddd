"""Whether what nodes were told of the next step, while the last one was being committed, is what they are to do now.

A node may write what it was told of under the epoch that it was told with. So that epoch is for exactly that, or for nothing.
"""

from __future__ import annotations

from kcontrol.core.coordinator.state import CoordinatorState


def stands(state: CoordinatorState) -> bool:
    """Whether it is: the last step is committed, the next epoch is the one that was told, and definition and lives are as they
    were."""
    told, spec = state.current.told, state.view.spec()
    if told is None or spec is None or spec != told.plan.spec or state.current.attempts:
        return False
    token = told.works[0].token
    return (
        state.transaction.followed
        and state.transaction.producer == (token.producer_id, token.producer_epoch)
        and token.claim_epoch == state.tenure.epoch
        and told.plan.step == state.steps.step + 1
        and token.incarnations == tuple(state.view.incarnations.get(node, -1) for node in range(spec.nodes))
    )
