"""What is said about a change of the layout of a pipeline that runs: asked for by users, made ready by the processes that are
to be its nodes, told by coordinators."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model.values import AgentPlacement
from kcontrol.core.model.words import LayoutPhase


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """`p/layout`: divide the pipeline over another number of nodes, while it runs; `p/layout/rebalance`: divide its state
    anew over those that there are, which the coordinator asks for itself."""

    pipeline: str
    request_id: str
    number: int
    """The change that this would be: one more than the newest that the asker has read. It is made as that one or not at all,
    so that nobody makes it twice."""
    nodes: int
    """How many nodes there are to be; 0: what was asked for before is withdrawn."""
    timeout_ms: int
    """How long it may be prepared; then it is given up, and nothing was changed."""
    replaced: tuple[int, ...] = ()
    """Nodes that other processes are to be from then on, with all that they have; how many nodes there are stays."""
    without: int = -1
    """A node that is left out, which `replaced` names: another process takes its number, with what the node with the highest
    number has, which is left out instead. -1: those with the highest numbers are left out, if there are to be fewer."""
    way: str = ""
    """Of an upgrade, how it goes (`UpgradeWay`); '': the request is of none."""
    left: tuple[int, ...] = ()
    """Of an upgrade: the nodes that are still to be upgraded after this, in order; whoever goes on with it begins there."""
    whole: int = 0
    """Of an upgrade: how many nodes there are once it is over; with more or fewer it is between two of its changes."""
    owners: tuple[int, ...] = ()
    """Of a rebalancing: by shard, the node that is to own it; (): what follows from the rest."""
    why: str = ""
    """Of a rebalancing: what it is for; '' if somebody has asked."""
    after: str = ""
    """Of a rebalancing: the newest request of somebody that whoever wrote it had read, '' for none. Once there is a newer one
    this one counts no more."""
    wish: AgentPlacement | None = None
    """`p/layout/wish/...`: of an agent: which entry of its cluster's log it is about. What an older entry asks for never counts
    beside what a newer one does, whenever it is written; None: it is of no agent."""


@dataclass(frozen=True, slots=True)
class LayoutReady:
    """`p/node/N/layout`: a process that is to be this node after a change of the layout, and how far it is with that. Said
    again and again; its silence means that it is gone."""

    pipeline: str
    node: int
    host: str
    process_id: int
    uuid: str
    """Of this process."""
    request_id: str
    """The request that it makes ready for; '' while there is none, and it waits for a place."""
    copied_step: int
    """The checkpoint of which it has all that the node will need; 0: none yet."""
    copied_bytes: int
    """Of state, in all so far."""
    total_bytes: int
    """As much as it will need of the newest checkpoint; -1: not known."""
    error: str
    """Why this process can't be the node; '' if it can."""
    beat: int
    """Counts the repeats, so that no two are equal."""
    linked_bytes: int = 0
    """Of what was copied as much was on its host already, and is linked."""


@dataclass(frozen=True, slots=True)
class LayoutStatus:
    """How far a `LayoutRequest` is, or what became of it."""

    request_id: str
    phase: LayoutPhase
    nodes: int
    """How many there are to be."""
    step: int
    """Done: the last step by the layout before. Else the checkpoint that is being copied; 0: none yet."""
    moved_shards: int
    copied_bytes: int
    """Over all nodes, as far as they have said."""
    total_bytes: int
    """-1: not known."""
    seconds_left: int
    """Until all is copied, about; -1: not known."""
    text: str
    """What it waits for, why it was refused or given up."""
