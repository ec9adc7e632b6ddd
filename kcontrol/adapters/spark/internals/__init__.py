"""The one door to what of Spark is no API: PySpark's handles of objects in the JVM, and
members of Spark's own classes.

Nobody else touches `_jvm`, `_jdf`, `_jsq`, `_gateway` and their like; ruff's SLF001 sees to it. The plans and
executions that come through this door are Scala objects, and what is asked of them anywhere in kcontrol
stands in `USED`. `check` looks for all of it as soon as there is a session, so that another Spark is one
sentence at the start and not a failing step.
"""

from __future__ import annotations

from kcontrol.adapters.spark.internals.call_sites import without_call_sites
from kcontrol.adapters.spark.internals.checking import (
    check,
    check_version,
    field_of,
    has_field,
    lack_of,
    lacking_for_shards,
)
from kcontrol.adapters.spark.internals.errors import Thrown, thrown_by
from kcontrol.adapters.spark.internals.first_uses import (
    first_compiler,
    first_library,
    first_parser,
    first_reflection,
)
from kcontrol.adapters.spark.internals.frames import (
    PlannedFrame,
    analyzed,
    java_column,
    map_in_arrow,
    rewritten,
)
from kcontrol.adapters.spark.internals.kept import (
    KeptPlan,
    KeptQuery,
    StateSession,
    StoreIds,
    lacking_for_kept,
)
from kcontrol.adapters.spark.internals.known_names import know_names
from kcontrol.adapters.spark.internals.linked_tables import (
    link_tables,
    links_tables_of,
    local_file_system,
)
from kcontrol.adapters.spark.internals.local_rights import set_rights_without_processes
from kcontrol.adapters.spark.internals.plan_tree import ATTRIBUTE, PlanExpression, PlanNode, plan_of
from kcontrol.adapters.spark.internals.queries import execution_of
from kcontrol.adapters.spark.internals.rewriting import (
    AS_STORED,
    PARTITION_KEY,
    check_rewrites,
    rewrite_state,
)
from kcontrol.adapters.spark.internals.session import (
    active_context,
    active_session,
    gateway_of,
    hadoop_configuration,
    java_session,
    jvm,
    jvm_class,
    own_gateway,
    parsed,
    set_local_properties,
    spark_home,
    use_gateway,
)
from kcontrol.adapters.spark.internals.snapshot_lists import read_snapshot_list
from kcontrol.adapters.spark.internals.state_partitions import (
    NOT_RUN,
    CurrentIds,
    PlanPlaces,
    SomePartitions,
    StateWriter,
    moves_after_state,
    none,
    nothing_of,
    places_in,
    shuffled,
)
from kcontrol.adapters.spark.internals.state_tables import hold_tables, take_snapshots
from kcontrol.adapters.spark.internals.used import OFFSET_METADATA, SPARK_VERSION, USED, USED_OF_STATEMENTS

__all__ = [
    "AS_STORED",
    "ATTRIBUTE",
    "NOT_RUN",
    "OFFSET_METADATA",
    "PARTITION_KEY",
    "SPARK_VERSION",
    "USED",
    "USED_OF_STATEMENTS",
    "CurrentIds",
    "KeptPlan",
    "KeptQuery",
    "PlanExpression",
    "PlanNode",
    "PlanPlaces",
    "PlannedFrame",
    "SomePartitions",
    "StateSession",
    "StateWriter",
    "StoreIds",
    "Thrown",
    "active_context",
    "active_session",
    "analyzed",
    "check",
    "check_rewrites",
    "check_version",
    "execution_of",
    "field_of",
    "first_compiler",
    "first_library",
    "first_parser",
    "first_reflection",
    "gateway_of",
    "hadoop_configuration",
    "has_field",
    "hold_tables",
    "java_column",
    "java_session",
    "jvm",
    "jvm_class",
    "know_names",
    "lack_of",
    "lacking_for_kept",
    "lacking_for_shards",
    "link_tables",
    "links_tables_of",
    "local_file_system",
    "map_in_arrow",
    "moves_after_state",
    "none",
    "nothing_of",
    "own_gateway",
    "parsed",
    "places_in",
    "plan_of",
    "read_snapshot_list",
    "rewrite_state",
    "rewritten",
    "set_local_properties",
    "set_rights_without_processes",
    "shuffled",
    "spark_home",
    "take_snapshots",
    "thrown_by",
    "use_gateway",
    "without_call_sites",
]
