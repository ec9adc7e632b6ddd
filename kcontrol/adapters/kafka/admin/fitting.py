"""Whether a topic as it is will do: one of kcontrol's own, or an input that is to be replayed."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.adapters.kafka.admin.topics import COMPACTED, TopicState
from kcontrol.errors import TopicError


def check_own_topic(state: TopicState, what: str, partitions: int, replication: int) -> None:
    """Refuse one of kcontrol's own topics that it could not work with.

    replication: the least that is good enough. Raises TopicError naming every setting that is wrong and its
    remedy.
    """
    wrong = []
    policy = state.config.get("cleanup.policy", "")
    if policy != COMPACTED:
        wrong.append(
            f"cleanup.policy is {policy!r} and must be 'compact', or old records would be lost (change "
            "it with kafka-configs)"
        )
    if state.partitions != partitions:
        wrong.append(
            f"it has {state.partitions} partitions and must have {partitions} (delete it if it is new, "
            "or use another prefix)"
        )
    refuse_if_wrong(state, what, replication, wrong)


def refuse_if_wrong(state: TopicState, what: str, replication: int, wrong: Sequence[str]) -> None:
    """Raise TopicError if something is wrong with a topic of kcontrol's own, or it is replicated less often than that.
    wrong: what was found, with the remedies."""
    if state.replication < replication:
        wrong = [
            *wrong,
            f"it is replicated {state.replication} times and must be {replication} times (use "
            "kafka-reassign-partitions)",
        ]
    if wrong:
        raise TopicError(f"{what} {state.name!r} can't be used: {'; '.join(wrong)}.")


def compaction_warnings(inputs: Sequence[TopicState], replay_window_ms: int | None) -> list[str]:
    """Sentences about inputs whose compaction could remove records that a replay still needs.

    replay_window_ms: how far back a replay may begin; None: at the first step, for want of checkpoints.
    """
    said = []
    for state in inputs:
        lag_ms = int(state.config.get("min.compaction.lag.ms", "0"))
        if COMPACTED not in state.config.get("cleanup.policy", ""):
            continue
        if replay_window_ms is None:
            said.append(
                f"Input topic {state.name!r} is compacted and there are no checkpoints: steps can't be "
                "replayed for ever."
            )
        elif lag_ms < replay_window_ms:
            said.append(
                f"Input topic {state.name!r} is compacted with min.compaction.lag.ms={lag_ms}: set it to at "
                f"least {replay_window_ms}, or steps can't be replayed after a compaction."
            )
    return said
