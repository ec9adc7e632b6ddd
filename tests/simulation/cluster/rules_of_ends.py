"""The rules by which what runs ends with its job, each as it is switched off."""

from __future__ import annotations

from unittest.mock import patch

from kcontrol.core.log import keys
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import Desired
from tests.simulation.breaking import Patches
from tests.simulation.cluster import faults
from tests.simulation.cluster import invariants as inv
from tests.simulation.cluster.hosts import HostAgent
from tests.simulation.cluster.rule import ClusterRule


def _pipelines_are_not_told_that_their_job_has_ended() -> Patches:
    return (patch.object(HostAgent, "tell_ends", lambda self: None),)


def _what_was_said_of_an_end_counts_for_ever() -> Patches:
    def desired(self: PipelineView) -> Desired | None:
        said = None if self.ended is None else self.latest.get(keys.end_key(self.pipeline, self.ended))
        return said.record if said is not None and isinstance(said.record, Desired) else right(self)

    right = PipelineView.desired
    return (patch.object(PipelineView, "desired", desired),)


RULES_OF_ENDS = (
    ClusterRule(
        _pipelines_are_not_told_that_their_job_has_ended,
        (inv.ENDED_RUNS_NOWHERE,),
        (faults.agent_killed,),
        begin=21,
    ),
    ClusterRule(_what_was_said_of_an_end_counts_for_ever, (inv.NEWER_GO_ON,), begin=4),
)
