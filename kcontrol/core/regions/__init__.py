"""Regions: pipelines, and others, that are drained, saved and reset as one. Pure, as all of the core.

`decide_region` is the state machine of a region; `begin_drain` and `hear_answer` are how a drain goes down the graph of its
pipelines, `in_flight` is what a cut is held against. So far the cores alone are there, and the simulator that judges them: see
docs/regions.md.
"""

from kcontrol.core.regions.cut import in_flight, standing, written_after, written_up_to
from kcontrol.core.regions.decide import decide_region
from kcontrol.core.regions.graph import graph_of, refused_graph
from kcontrol.core.regions.model import Region, RegionSettings, refused_settings, told
from kcontrol.core.regions.wave import begin_drain, hear_answer, is_drained, waits_for

__all__ = [
    "Region",
    "RegionSettings",
    "begin_drain",
    "decide_region",
    "graph_of",
    "hear_answer",
    "in_flight",
    "is_drained",
    "refused_graph",
    "refused_settings",
    "standing",
    "told",
    "waits_for",
    "written_after",
    "written_up_to",
]
