"""RegionConsumer: the cuts of a region, one after the other, each with all steps of its pipelines since the one before: for
programs in which what several pipelines wrote has to agree."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.adapters.kafka.regions.log import KafkaRegionLog
from kcontrol.apps.regions.asking import RegionReader
from kcontrol.apps.step_consumer import Step, StepConsumer
from kcontrol.core.regions.records import RegionCut
from kcontrol.errors import ConfigurationError, CutsVoidedError, InputGoneError, NotFoundError
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.toml import resolve_settings
from kcontrol.wire.names import check_region_name

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.2
_STEP_WITHIN_S = 60.0
"""A step of a cut is committed, so it is there."""


class ConsumedCut:
    """A cut, and what lies between the one before it and this.

    number: of the drain. made_ms: when, by the clock of the region's controller. ends: by pipeline, its step at this cut.
    """

    def __init__(self, settings: ClusterSettings, cut: RegionCut, before: Mapping[str, int]) -> None:
        self._settings, self._before = settings, before
        self.number, self.made_ms = cut.number, cut.made_ms
        self.ends: Mapping[str, int] = {one.pipeline: one.step for one in cut.pipelines}

    def steps(self, pipeline: str) -> Iterator[Step]:
        """The steps of a pipeline after the cut before this one and up to it, each whole. May be called again.

        Raises NotFoundError: it has no such pipeline. InputGoneError: a step is no longer in the log, or void since a reset,
        or its records are no longer in their topics. Others as `StepConsumer` does.
        """
        if pipeline not in self.ends:
            raise NotFoundError(
                f"cut {self.number} has no pipeline {pipeline!r}; it has {', '.join(sorted(self.ends))}"
            )
        done, end = self._before.get(pipeline, 0), self.ends[pipeline]
        if done >= end:
            return
        with StepConsumer(pipeline, self._settings, after_step=done, timeout=_STEP_WITHIN_S) as steps:
            for step in steps:
                if step.number > end:
                    break
                done = step.number
                yield step
                if done == end:
                    return
        raise InputGoneError(
            f"cut {self.number}: step {end} of pipeline {pipeline!r} is not there any more: a reset has made it void, or the "
            f"log has dropped it. What comes after step {done} belongs to no cut before the next one"
        )


class RegionConsumer:
    """Iterates over the cuts of a region, in order.

        with kcontrol.RegionConsumer("end-of-day", after_cut=17) as cuts:
            for cut in cuts:
                for step in cut.steps("totals"):
                    save(cut.number, step.number, step.records["out"])

    region: its name. settings, or bootstrap_servers: of the cluster; with neither, as the command line finds them.
    after_cut: the last one that the caller has; 0: from the first steps of its pipelines on.
    timeout: seconds to wait for the next cut; the iteration then ends and can be taken up again. None: wait for ever.

    Raises NotFoundError: there is no such region. While iterating, InputGoneError: the cut that the caller has is no longer in
    the region's log, so it is not known where the next one begins. CutsVoidedError: the region was taken back to an older cut
    than those that were returned; said once, and the iteration goes on behind that. RetriableError: Kafka was away for more
    than two minutes.
    """

    def __init__(
        self,
        region: str,
        settings: ClusterSettings | None = None,
        *,
        bootstrap_servers: str | None = None,
        after_cut: int = 0,
        timeout: float | None = None,
    ) -> None:
        if settings is not None and bootstrap_servers is not None:
            raise ConfigurationError("RegionConsumer: give settings or bootstrap_servers, not both.")
        if after_cut < 0:
            raise ConfigurationError(f"RegionConsumer: after_cut is {after_cut}; cuts are numbered from 1.")
        self._settings = settings or resolve_settings(bootstrap_servers, os.environ, Path.cwd())
        self._region, self._after, self._timeout = check_region_name(region), after_cut, timeout
        self._client = client_for(self._settings)
        self._asked = KafkaAskedRegions(self._settings)
        self._log = KafkaRegionLog(self._settings, region)
        self._reader = RegionReader(region, self._asked, self._log)
        self._before: Mapping[str, int] | None = None
        self._look()

    def __iter__(self) -> RegionConsumer:
        return self

    def __next__(self) -> ConsumedCut:
        deadline_s = None if self._timeout is None else time.monotonic() + self._timeout
        while True:
            view = self._reader.view
            back_to = view.gone_back(self._after)
            if back_to is not None:
                taken, self._after, self._before = self._after, back_to, None
                raise CutsVoidedError(self._region, back_to, taken)
            if self._before is None:
                self._before = self._steps_before(view.cuts)
            later = [number for number in sorted(view.cuts) if number > self._after]
            if later:
                return self._taken(view.cuts[later[0]])
            if deadline_s is not None and time.monotonic() >= deadline_s:
                raise StopIteration
            time.sleep(_LOOK_EVERY_S)
            self._look()

    def _taken(self, cut: RegionCut) -> ConsumedCut:
        assert self._before is not None
        found = ConsumedCut(self._settings, cut, self._before)
        self._before, self._after = {**self._before, **found.ends}, cut.number
        return found

    def _steps_before(self, cuts: Mapping[int, RegionCut]) -> Mapping[str, int]:
        if self._after and self._after not in cuts:
            raise InputGoneError(
                f"Cut {self._after} of region {self._region!r} is not in its log, which has "
                + (f"{min(cuts)} to {max(cuts)}" if cuts else "none")
                + ". Start with after_cut=0, or after one that is there, if what is missing may be."
            )
        return {one.pipeline: one.step for one in cuts[self._after].pipelines} if self._after else {}

    def _look(self) -> None:
        self._client.start(
            until_deadline(self._reader.look, f"following the log of region {self._region!r}", _log)
        ).result()

    def close(self) -> None:
        """Let go of the connections. The iteration is over."""
        for one in (self._asked, self._log):
            self._client.start(one.close()).result()

    def __enter__(self) -> RegionConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
