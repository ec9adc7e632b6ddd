"""Who owns which shard, as a table that is changed with the least movement.

A shard is a partition of Spark's state: the hash of the columns by which rows are exchanged, modulo the number of shuffle
partitions. A table is a tuple with a number of a node for each shard. It begins as `dealt`, which says to which node rows
are sent and which partitions a node runs; a table that is changed remembers, so that as little as possible moves: no rule
that computes the owner from the number of nodes alone is both balanced and still (decision 073). Everything here is a
function of its arguments, the same on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kcontrol.core.model import Checkpoint, PipelineSpec

Owners = tuple[int, ...]
"""By shard, the number of the node that owns it."""

SLACK = Fraction(1, 10)
"""By how much more than the mean a node may have before something of it is moved."""


NODES_PER_SHARD = Fraction(1, 4)
"""With as many shards as fit the nodes: each has at least 4, so that one more or less moves little."""


@dataclass(frozen=True, slots=True)
class ShardMove:
    """A shard that another node owns from now on."""

    shard: int
    from_: int
    to: int


# --- looking at tables --------------------------------------------------------------------------------------


def dealt(shards: int, nodes: int) -> Owners:
    """The table of a pipeline whose shards have never moved."""
    return tuple(shard % nodes for shard in range(shards))


def owners_of(spec: PipelineSpec) -> Owners:
    """The table in force by a definition."""
    return spec.owners or dealt(spec.layout.shuffle_partitions, spec.nodes)


def saved_owners(checkpoint: Checkpoint, shards: int) -> Owners:
    """The table by which the parts of a checkpoint were saved: whose part holds which of so many shards."""
    if checkpoint.assignment is not None:
        return checkpoint.assignment.owners
    return dealt(shards, len(checkpoint.parts))


def owned_by(owner: Owners, node: int) -> frozenset[int]:
    return frozenset(shard for shard, each in enumerate(owner) if each == node)


def moves(before: Owners, after: Owners) -> tuple[ShardMove, ...]:
    """What becomes another node's between two tables of equally many shards. Raises ValueError."""
    if len(before) != len(after):
        raise ValueError(
            f"tables of {len(before)} and {len(after)} shards: double or halve the first one first"
        )
    return tuple(
        ShardMove(shard, from_, to)
        for shard, (from_, to) in enumerate(zip(before, after, strict=True))
        if from_ != to
    )


# --- other members ------------------------------------------------------------------------------------------


def rebalanced(owner: Owners, members: Sequence[int]) -> Owners:
    """The table for these nodes that differs from `owner` in the fewest shards of all that are balanced: the numbers of
    shards of any two of them differ by at most 1.

    A node keeps as many of its shards as its quota allows and gives up the last ones; the larger quotas go to those that
    hold most, because any other choice moves at least as many. A balanced table stays as it is. Raises ValueError without
    members.
    """
    nodes = _distinct(members)
    kept = {node: sorted(owned_by(owner, node)) for node in nodes}
    least, larger = divmod(len(owner), len(nodes))
    by_most = sorted(nodes, key=lambda node: (-len(kept[node]), node))
    quota = {node: least + (place < larger) for place, node in enumerate(by_most)}
    homeless = {shard for shard, node in enumerate(owner) if node not in quota}
    for node in nodes:
        homeless.update(kept[node][quota[node] :])
    table, free = list(owner), sorted(homeless)
    # Those that lack most are served first.
    for node in sorted(nodes, key=lambda node: (len(kept[node]) - quota[node], node)):
        lacking = max(0, quota[node] - len(kept[node]))
        for shard in free[:lacking]:
            table[shard] = node
        free = free[lacking:]
    return tuple(table)


def weighted(
    owner: Owners, members: Sequence[int], weights: Sequence[int], slack: Fraction = SLACK
) -> Owners:
    """A table for these nodes in which none has more than (1 + `slack`) x the mean weight, as far as whole shards allow
    it, and little is moved.

    weights: by shard, such as bytes of state. Shards without an owner among `members` are dealt out first, the heaviest
    first, each to the node that has least. Then, as long as a node has too much and moving a shard helps, the lightest shard
    that cures it moves to the one that has least, or the heaviest of those that help. What comes out stays as it is when it
    is balanced again; no node then has more than the limit, or than the mean and its lightest shard. Without any weight:
    as `rebalanced`. Raises ValueError without members, or for weights that are not one a shard, or negative.
    """
    if len(weights) != len(owner) or min(weights, default=0) < 0:
        raise ValueError(f"{len(owner)} shards need as many weights, none below 0: {list(weights)}")
    nodes = _distinct(members)
    if not any(weights):
        return rebalanced(owner, nodes)
    loads = _Loads(owner, nodes, weights)
    loads.deal_out()
    limit = (1 + slack) * Fraction(sum(weights), len(nodes))
    while loads.relieve(limit):
        pass
    return tuple(loads.table)


class _Loads:
    """A table while it is being changed, with what each node has. The sum of the squares of `of` falls with every move, so
    that there is a last one."""

    def __init__(self, owner: Owners, nodes: Sequence[int], weights: Sequence[int]) -> None:
        self.table, self.weights = list(owner), weights
        self.of = dict.fromkeys(nodes, 0)
        self.count = dict.fromkeys(nodes, 0)
        for shard, node in enumerate(owner):
            if node in self.of:
                self._add(shard, node)

    def _add(self, shard: int, node: int, sign: int = 1) -> None:
        self.of[node] += sign * self.weights[shard]
        self.count[node] += sign

    def _least(self) -> int:
        return min(self.of, key=lambda node: (self.of[node], self.count[node], node))

    def deal_out(self) -> None:
        homeless = [shard for shard, node in enumerate(self.table) if node not in self.of]
        for shard in sorted(homeless, key=lambda shard: (-self.weights[shard], shard)):
            self.table[shard] = self._least()
            self._add(shard, self.table[shard])

    def relieve(self, limit: Fraction) -> bool:
        """Move one shard. False if nobody has more than the limit, or no move would help."""
        least = self._least()
        for node in sorted(self.of, key=lambda node: (-self.of[node], node)):
            if self.of[node] <= limit:
                return False
            # It helps if the two are nearer to each other afterwards.
            helping = [
                shard
                for shard in owned_by(tuple(self.table), node)
                if 0 < self.weights[shard] < self.of[node] - self.of[least]
            ]
            if helping:
                shard = self._best(helping, self.of[node] - limit)
                self._add(shard, node, -1)
                self._add(shard, least)
                self.table[shard] = least
                return True
        return False

    def _best(self, helping: Sequence[int], too_much: Fraction) -> int:
        """The lightest that is heavy enough, else the heaviest."""
        enough = [shard for shard in helping if self.weights[shard] >= too_much]
        if enough:
            return min(enough, key=lambda shard: (self.weights[shard], shard))
        return max(helping, key=lambda shard: (self.weights[shard], -shard))


def _distinct(members: Sequence[int]) -> tuple[int, ...]:
    nodes = tuple(sorted(set(members)))
    if not nodes:
        raise ValueError("shards need at least one node to own them")
    return nodes


# --- another number of shards -------------------------------------------------------------------------------


def dynamic_shards(members: int, nodes_per_shard: Fraction, now: int = 0) -> int:
    """How many shards so many nodes should have: the lowest power of two that gives each at least 1 / `nodes_per_shard`.

    now: how many there are, 0: none yet. More are made at once, because nodes without a shard are idle; fewer only where a
    quarter would do, so that a node which comes and goes does not cut all state anew each time. Raises ValueError.
    """
    if members < 1 or nodes_per_shard <= 0:
        raise ValueError(f"{members} nodes with {nodes_per_shard} nodes a shard: both must be above 0")
    wanted = 1
    while wanted * nodes_per_shard < members:
        wanted *= 2
    return now if wanted < now < 4 * wanted else wanted


def doubled(owner: Owners) -> Owners:
    """With twice as many shards: p becomes p and p + S, since a hash modulo 2 S is one of them. Nothing moves."""
    return owner + owner


def halved(owner: Owners) -> Owners:
    """With half as many shards: p and p + S become p, with the owner of p. Raises ValueError for an odd number."""
    half, odd = divmod(len(owner), 2)
    if odd:
        raise ValueError(f"{len(owner)} shards can't be halved")
    return owner[:half]


def resharded(owner: Owners, shards: int) -> Owners:
    """The table of so many shards: doubled or halved as often as it takes. Raises ValueError if that does not lead there."""
    while len(owner) < shards and shards % len(owner) == 0:
        owner = doubled(owner)
    while len(owner) > shards and len(owner) % 2 == 0:
        owner = halved(owner)
    if len(owner) != shards:
        raise ValueError(f"{len(owner)} shards do not become {shards} by doubling or halving them")
    return owner


def can_reshard(before: int, after: int) -> bool:
    """Whether so many shards become so many others by doubling or halving them."""
    less, more = sorted((before, after))
    return less > 0 and more % less == 0 and (more // less).bit_count() == 1


def moves_between(before: Owners, after: Owners) -> tuple[ShardMove, ...]:
    """As `moves`, of tables one of which may be the other doubled or halved: by the shards of the longer one."""
    most = max(len(before), len(after))
    return moves(resharded(before, most), resharded(after, most))
