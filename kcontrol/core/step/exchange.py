"""The stages of a step whose queries exchange rows: when the next one may begin, on which rows, and whether what nodes say of
them fits together.

Every node, the coordinator and a replay go by these functions. What counts of an attempt is what carries exactly its token; so
nobody ever fetches a run out of another attempt's report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import (
    EMPTY_DIGEST,
    ExchangeRun,
    ExchangeSlice,
    ExchangeTaken,
    Layout,
    PipelineSpec,
    Token,
    Written,
)

MOST_RUNS = 5_000
"""Of one step: its boundary, of about 50 bytes a run, must be a record that any broker takes."""

_HALF = 1 << 64
_PLAIN = len(EMPTY_DIGEST)
"""Digits of a digest with nothing exact in it."""


def stages_of(spec: PipelineSpec) -> int:
    """How many stages a step has: 1 unless queries exchange rows."""
    after_delivery = (each.stage + 1 for each in spec.exchanges if each.delivers)
    return 1 + max((*spec.stages, *after_delivery), default=0)


def early_report(view: PipelineView, token: Token, node: int, stage: int) -> Written | None:
    """What a node, in the life that the attempt is made by, says about a stage of exactly this attempt that is not the last;
    None while it was not read."""
    written = view.early(node, token.incarnations[node], stage)
    return written if written is not None and written.token == token else None


def reports_of(view: PipelineView, spec: PipelineSpec, node: int) -> list[Written]:
    """What a node has said last about each stage, of whatever attempts, in order of stages."""
    life = view.incarnation(node)
    early = [None if life is None else view.early(node, life, stage) for stage in range(stages_of(spec) - 1)]
    return [written for written in (*early, view.written(node)) if written is not None]


def ready(view: PipelineView, token: Token, stage: int) -> bool:
    """Whether the stage after this one may begin: every life in the token has written this one and all before it."""
    reports = (
        early_report(view, token, node, before)
        for node in range(len(token.incarnations))
        for before in range(stage + 1)
    )
    return all(report is not None and report.failure is None for report in reports)


def sent_through(view: PipelineView, token: Token, stage: int) -> tuple[ExchangeSlice, ...]:
    """What all nodes have sent in the stages up to this one, of an attempt that is `ready`; by exchange and partition."""
    reports = (
        early_report(view, token, node, before)
        for node in range(len(token.incarnations))
        for before in range(stage + 1)
    )
    return in_order(piece for report in reports if report is not None for piece in report.sent)


def in_order(slices: Iterable[ExchangeSlice]) -> tuple[ExchangeSlice, ...]:
    """By exchange and partition."""
    return tuple(sorted(slices, key=lambda piece: (piece.exchange, piece.partition)))


def runs_for(slices: Iterable[ExchangeSlice], node: int) -> tuple[ExchangeSlice, ...]:
    """The slices cut down to the runs for one node; those that hold none are left out."""
    cut = (replace(piece, runs=tuple(run for run in piece.runs if run.node == node)) for piece in slices)
    return tuple(piece for piece in cut if piece.runs)


def slots_of(spec: PipelineSpec, layout: Layout, exchange: str, node: int) -> range:
    """The partitions of an exchange that a node writes in a step with this layout: one for each of its writer tasks."""
    senders = next((each.senders for each in layout.exchanges if each.exchange == exchange), 0)
    begin = node * spec.layout.max_tasks
    return range(begin, begin + senders)


def slots(spec: PipelineSpec, layout: Layout) -> tuple[tuple[str, int], ...]:
    """(topic, partition) of everything that nodes may send in a step with this layout."""
    return tuple(
        (exchange.topic, slot)
        for exchange in spec.exchanges
        for node in range(spec.nodes)
        for slot in slots_of(spec, layout, exchange.name, node)
    )


def content(runs: Iterable[ExchangeRun]) -> tuple[int, str]:
    """Rows of several runs and their digest; without what is exact in it unless all have that."""
    several = list(runs)
    records = sum(run.records for run in several)
    if not records:
        return 0, EMPTY_DIGEST
    is_exact = all(len(run.digest) > _PLAIN for run in several)
    digests = [run.digest if is_exact else plain(run.digest) for run in several]
    sums = (sum(int(one[at : at + 16], 16) for one in digests) for at in range(0, len(digests[0]), 16))
    return records, "".join(f"{each % _HALF:016x}" for each in sums)


def plain(digest: str) -> str:
    """The digest without what is exact in it, as an older kcontrol has recorded it (decision 189)."""
    return digest[:16] + digest[-16:]


def is_same(before: tuple[int, str], now: tuple[int, str]) -> bool:
    """Whether two contents are the same, as far as both tell."""
    if len(before[1]) == len(now[1]):
        return before == now
    return (before[0], plain(before[1])) == (now[0], plain(now[1]))


# --- whether it fits together -------------------------------------------------------------------------------


def wrong_slices(
    spec: PipelineSpec, layout: Layout, node: int, stage: int, slices: Sequence[ExchangeSlice]
) -> str:
    """What is wrong with what a node says that it has sent in a stage, or ''."""
    stages = {each.name: each.stage for each in spec.exchanges}
    seen = set()
    for piece in slices:
        where = f"exchange {piece.exchange} partition {piece.partition}"
        if stages.get(piece.exchange) != stage:
            return f"sent to {where} in stage {stage}, where it sends nothing there"
        if piece.partition not in slots_of(spec, layout, piece.exchange, node):
            return f"sent to {where}, which is not its own"
        if (piece.exchange, piece.partition) in seen:
            return f"reports {where} twice"
        seen.add((piece.exchange, piece.partition))
        wrong = _wrong_runs(spec.nodes, piece)
        if wrong:
            return f"sent to {where} {wrong}"
    return ""


def _wrong_runs(nodes: int, piece: ExchangeSlice) -> str:
    reached = piece.from_
    for run in piece.runs:
        if not 0 <= run.node < nodes:
            return f"rows for node {run.node}, which there is not"
        if run.from_ != reached or run.to <= run.from_:
            return f"offsets [{run.from_}, {run.to}) after [{piece.from_}, {reached}): a gap or an overlap"
        if run.records <= 0:
            return f"no rows at offsets [{run.from_}, {run.to})"
        reached = run.to
    return "" if reached == piece.to else f"runs up to offset {reached} of [{piece.from_}, {piece.to})"


def wrong_taken(slices: Iterable[ExchangeSlice], taken: Sequence[Sequence[ExchangeTaken]]) -> str:
    """What a node has taken that was not sent to it, or the other way round; '' if all that was sent has arrived.

    taken: by node, what it reports.
    """
    sent: dict[tuple[str, int], int] = {}
    for piece in slices:
        for run in piece.runs:
            sent[piece.exchange, run.node] = sent.get((piece.exchange, run.node), 0) + run.records
    arrived: dict[tuple[str, int], int] = {}
    for node, several in enumerate(taken):
        for one in several:
            if one.node != node or (one.exchange, node) in arrived:
                return (
                    f"node {node} reports what node {one.node} took of exchange {one.exchange}, or does twice"
                )
            arrived[one.exchange, node] = one.records
    for exchange, node in sorted(sent.keys() | arrived.keys()):
        put, got = sent.get((exchange, node), 0), arrived.get((exchange, node), 0)
        if put != got:
            return f"node {node} took {got} rows of exchange {exchange}, but {put} were sent to it"
    return ""
