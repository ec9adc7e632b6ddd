"""Whether state is so unevenly divided over the nodes that dividing it anew is worth a pause, and how it then is divided.

What a shard weighs is what of a checkpoint is of it. Between "too much" (`RebalanceSpec`) and what is brought about (`SLACK`)
lies a band in which nothing is done, so that a node does not have too much again at once; and where the shards allow no
division that is better by a margin, nothing is done either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kcontrol.core.model import RebalanceSpec
from kcontrol.core.step.assignment import SLACK, Owners, weighted

WORTH = SLACK
"""Of the mean: the fullest node must have as much less afterwards, or nothing is moved."""


@dataclass(frozen=True, slots=True)
class Fullest:
    """The node that has most. mean_bytes: what each would have if it could be cut as one likes."""

    node: int
    size_bytes: int
    mean_bytes: Fraction

    def has_too_much(self, policy: RebalanceSpec) -> bool:
        """Whether it has more of the mean, and more beyond it, than the policy allows."""
        beyond = self.size_bytes - self.mean_bytes
        return self.size_bytes * 100 > self.mean_bytes * policy.when_percent and beyond >= policy.least_bytes


def fullest(owner: Owners, weights: Sequence[int]) -> Fullest:
    """Of the nodes that own shards. weights: bytes by shard, as many as there are owners."""
    sizes = dict.fromkeys(sorted(set(owner)), 0)
    for node, weight in zip(owner, weights, strict=True):
        sizes[node] += weight
    node = max(sizes, key=lambda each: sizes[each])
    return Fullest(node, sizes[node], Fraction(sum(weights), len(sizes)))


def evened(owner: Owners, weights: Sequence[int]) -> Owners | None:
    """The table for the same nodes by which none has more than it should, as far as whole shards allow it; None: there is no
    such that is worth it."""
    after = weighted(owner, sorted(set(owner)), weights)
    before, then = fullest(owner, weights), fullest(after, weights)
    less_bytes = before.size_bytes - then.size_bytes
    return after if less_bytes > 0 and less_bytes >= WORTH * before.mean_bytes else None
