"""Which rights each role of a region needs in Kafka: as roles.py has them for pipelines, and for the same pages and tests.

A region needs rights on its own records, and, of each pipeline in it, some that are written down by the pipeline's definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kcontrol.adapters.kafka.admin.roles import RoleRight, Topics
from kcontrol.adapters.kafka.client.rights import Operation, topic, transactional_id
from kcontrol.wire.names import Names

_READ, _WRITE, _CREATE = Operation.READ, Operation.WRITE, Operation.CREATE
_DESCRIBE, _DESCRIBE_CONFIGS = Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS


class RegionRole(StrEnum):
    """A principal's job with a region."""

    CONTROLLER = "region-controller"
    OPERATOR = "region-operator"
    VIEWER = "region-viewer"


REGION_ROLES: Mapping[RegionRole, str] = {
    RegionRole.CONTROLLER: "`kcontrol region-controller`",
    RegionRole.OPERATOR: "as a viewer, and `kcontrol region apply`, `drain`, `reset`, `resume`, `rollback`, `delete`",
    RegionRole.VIEWER: "`kcontrol region status`, `cuts`; `kcontrol.RegionConsumer`, as a consumer of each pipeline besides",
}
"""What each is for."""

_REGIONS, _LOG = "topic `PREFIX.regions`", "topic `PREFIX.regions.log.REGION`"
_ID = "transactional id `PREFIX.regions.log.REGION`"
_CONTROL, _STEPS, _INPUT, _OUTPUT = "control topic", "steps topic", "each input topic", "each output topic"
_ROLLBACK, _STILL = "`kcontrol region rollback`", "sees whether what is needed is still there"


def region_needs(role: RegionRole, names: Names, region: str) -> tuple[RoleRight, ...]:
    """All that a role needs of a region's own records. Raises ConfigurationError for names that can't be."""
    wanted, log = names.regions_topic(), names.region_log_topic(region)
    creates = (
        RoleRight(topic(wanted, _CREATE), _REGIONS, "makes the topic if it is missing", optional=True),
        RoleRight(topic(log, _CREATE), _LOG, "makes the topic if it is missing", optional=True),
    )
    match role:
        case RegionRole.CONTROLLER:
            return (
                RoleRight(
                    topic(wanted, _READ, _DESCRIBE_CONFIGS),
                    _REGIONS,
                    "follows definitions and requests; checks the topic",
                ),
                RoleRight(
                    topic(log, _READ, _WRITE, _DESCRIBE_CONFIGS),
                    _LOG,
                    "writes what becomes of the region, and goes on from it",
                ),
                RoleRight(
                    transactional_id(names.region_transactional_id(region), _WRITE),
                    _ID,
                    "is in charge: fences other controllers",
                ),
                *creates,
            )
        case RegionRole.OPERATOR:
            return (
                RoleRight(
                    topic(wanted, _READ, _WRITE, _DESCRIBE_CONFIGS),
                    _REGIONS,
                    "defines it and asks; `apply`: checks the topic",
                ),
                RoleRight(
                    topic(log, _READ, _DESCRIBE_CONFIGS),
                    _LOG,
                    "waits for what becomes of it; `apply`: checks the topic",
                ),
                *creates,
            )
        case RegionRole.VIEWER:
            return (
                RoleRight(topic(wanted, _READ), _REGIONS, "finds the definition"),
                RoleRight(topic(log, _READ), _LOG, "reads what became of it"),
            )


def member_needs(role: RegionRole, names: Names, pipeline: str, topics: Topics) -> tuple[RoleRight, ...]:
    """All that a role needs of a pipeline of the region. Raises ConfigurationError for names that can't be."""
    control, steps = names.control_topic(), names.steps_topic(pipeline)
    seen = [topic(name, _DESCRIBE, _DESCRIBE_CONFIGS) for name in topics.inputs]
    match role:
        case RegionRole.CONTROLLER:
            return (
                RoleRight(
                    topic(control, _READ, _WRITE), _CONTROL, "sees how it is, holds it and lets it go on"
                ),
                RoleRight(topic(steps, _READ), _STEPS, "holds cuts against what is committed"),
                *(
                    RoleRight(topic(name, _DESCRIBE), _OUTPUT, "sees where it ends while the pipeline stands")
                    for name in topics.outputs
                ),
                RoleRight(topic(steps, _WRITE), _STEPS, f"{_ROLLBACK}: resets the pipeline", optional=True),
                RoleRight(
                    transactional_id(names.transactional_id(pipeline), _WRITE),
                    "transactional id `PREFIX.PIPELINE`",
                    f"{_ROLLBACK}: resets the pipeline, in its transaction",
                    optional=True,
                ),
                *(RoleRight(right, _INPUT, f"{_ROLLBACK}: {_STILL}", optional=True) for right in seen),
            )
        case RegionRole.OPERATOR:
            seen += [topic(name, _DESCRIBE, _DESCRIBE_CONFIGS) for name in topics.outputs]
            return (
                RoleRight(topic(control, _READ), _CONTROL, "`apply`: finds the pipeline's definition"),
                RoleRight(
                    topic(steps, _READ), _STEPS, f"{_ROLLBACK}: looks at what would be void", optional=True
                ),
                *(
                    RoleRight(
                        right,
                        _INPUT if right.name in topics.inputs else _OUTPUT,
                        f"{_ROLLBACK}: {_STILL}",
                        optional=True,
                    )
                    for right in seen
                ),
            )
        case RegionRole.VIEWER:
            return ()
