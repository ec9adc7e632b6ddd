"""A fold of a region's log: the newest change, the cuts that are kept, and who is in charge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kcontrol.core.regions.history import history_of
from kcontrol.core.regions.records import (
    RegionAnswer,
    RegionBeat,
    RegionChange,
    RegionCut,
    RegionHistory,
    RegionRecord,
    change_key,
    cut_key,
)
from kcontrol.core.regions.value import RegionValue, value_of


@dataclass(frozen=True, slots=True)
class RegionTombstone:
    """A key of a region's log that was taken away."""

    key: str


RegionLogged = RegionRecord | RegionTombstone


@dataclass(frozen=True, slots=True)
class RegionLogView:
    """changes, cuts: by number, those that are kept. owner: who wrote the newest change or beat. has_ended: and has said that
    it stops."""

    changes: Mapping[int, RegionChange] = field(default_factory=dict)
    cuts: Mapping[int, RegionCut] = field(default_factory=dict)
    beat: RegionBeat | None = None
    owner: str = ""
    has_ended: bool = False

    @property
    def newest(self) -> RegionChange | None:
        return self.changes[max(self.changes)] if self.changes else None

    @property
    def value(self) -> RegionValue | None:
        """After the newest change."""
        return None if self.newest is None else value_of(self.newest)

    @property
    def history(self) -> RegionHistory:
        """After the newest change."""
        return history_of(self.changes[number] for number in sorted(self.changes))

    @property
    def cut(self) -> RegionCut | None:
        """The newest."""
        return self.cuts[max(self.cuts)] if self.cuts else None

    def answer(self, request_id: str) -> RegionAnswer | None:
        """To a request, as far back as changes are kept."""
        for number in sorted(self.changes, reverse=True):
            for answer in self.changes[number].answers:
                if answer.request_id == request_id:
                    return answer
        return None

    def forgotten(self, keep_changes: int, keep_cuts: int) -> tuple[str, ...]:
        """Keys of what is older than so many of the newest, and of cuts that are void. One that is being gone back to stays."""
        old_changes = sorted(self.changes)[:-keep_changes]
        void = {number for number in self.cuts if number > self._last_completed}
        rollback = None if self.newest is None else self.newest.rollback
        needed = set() if rollback is None else {rollback.to_cut}
        old_cuts = sorted(void | set(sorted(self.cuts.keys() - void)[:-keep_cuts]) - needed)
        return (*map(change_key, old_changes), *map(cut_key, old_cuts))

    def gone_back(self, cut: int) -> int | None:
        """Whether a cut that somebody has is void: the one that the region went back to over it; None: it counts."""
        if self.newest is not None and self._last_completed < cut:
            return self._last_completed
        later = min((number for number in self.cuts if number > cut), default=None)
        before = cut if later is None else self.cuts[later].follows
        return before if 0 <= before < cut else None

    @property
    def _last_completed(self) -> int:
        return 0 if self.newest is None else self.newest.last_completed_seq_id


def read_on(view: RegionLogView, records: Iterable[RegionLogged]) -> RegionLogView:
    """The view after more records, in the order of the log."""
    changes, cuts = dict(view.changes), dict(view.cuts)
    for record in records:
        match record:
            case RegionChange():
                changes[record.number] = record
                view = replace(view, owner=record.controller, has_ended=False)
            case RegionCut():
                cuts[record.number] = record
            case RegionBeat():
                view = replace(view, beat=record, owner=record.controller, has_ended=record.ended)
            case RegionTombstone(key):
                kind, _, number = key.partition("/")
                if number.isdecimal() and kind == "change":
                    changes.pop(int(number), None)
                elif number.isdecimal() and kind == "cut":
                    cuts.pop(int(number), None)
    return replace(view, changes=changes, cuts=cuts)
