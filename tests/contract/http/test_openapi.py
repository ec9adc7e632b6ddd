"""The OpenAPI document is true: schemathesis makes requests from it, right and wrong
ones, and holds every answer to it."""

from __future__ import annotations

import os
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.http.app import make_api
from kcontrol.adapters.http.plane import Plane
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.views.cluster_projection import Projections
from tests.contract.http.conftest import NOBODY
from tests.fakes.memory_kafka import MemoryKafka, MemorySource
from tests.support.dice import say_seed, seed_of_run
from tests.support.patience import HANG_S

EXAMPLES = int(os.environ.get("KCONTROL_EXAMPLES", "6"))
"""Requests for each operation and mode, at most; each run makes others, and more of them if it is asked to."""
SEED = seed_of_run()


def document() -> dict[str, Any]:
    """The one that every server serves."""
    registry, clock = make_registry(), SystemClock()
    return make_api(Plane(NOBODY, Projections(MemorySource(MemoryKafka()), clock), clock, registry)).openapi()


REFUSALS = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
"""What may be said to a wrong request: schemathesis' own list and 413, for one that is too large as well."""
CONFIG = SchemathesisConfig.from_dict(
    {"checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}}}
)
LOADED = schemathesis.openapi.from_dict(document(), config=CONFIG)
OPERATIONS = {
    operation.label: operation for operation in (found.ok() for found in LOADED.get_all_operations())
}


@pytest.mark.parametrize("mode", list(GenerationMode))
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_answers_as_the_document_says(
    address: str, operation: str, mode: GenerationMode
) -> None:
    say_seed(SEED)
    try:
        cases = OPERATIONS[operation].as_strategy(generation_mode=mode)

        @seed(SEED)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            print_blob=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=cases)
        def ask(case: schemathesis.Case) -> None:
            if mode is GenerationMode.POSITIVE and "pipeline" in case.path_parameters:
                case.path_parameters["pipeline"] = "p"
            # What is not there (a pipeline, an offset) is right by its schema and 404 all the same.
            case.call_and_validate(
                base_url=address, excluded_checks=[positive_data_acceptance], timeout=HANG_S
            )

        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, "nothing can be wrong with an operation without parameters"


def test_the_document_is_openapi_3_1_and_names_every_operation(address: str) -> None:
    served = httpx.get(f"{address}/v1/openapi.json", timeout=HANG_S).json()
    assert served == document()
    assert served["openapi"].startswith("3.1")
    paths = set(served["paths"])
    pipeline = "/v1/pipelines/{pipeline}"
    reads = (
        "",
        "/spec",
        "/inputs",
        "/deliveries",
        "/nodes",
        "/nodes/{node}",
        "/checkpoints",
        "/errors",
        "/steps",
        "/steps/{step}",
        "/stats",
    )
    lookups = ("/steps/brief", "/steps/by-input", "/steps/by-output", "/completion", "/requests/{request_id}")
    inputs = tuple(f"/inputs/{{input}}{part}" for part in ("", "/pause", "/start", "/resume", "/skip"))
    writes = (
        "/start",
        "/resume",
        "/pause",
        "/stop",
        "/shutdown",
        "/spec",
        "/query",
        *inputs,
        "/nodes/{node}/profile/{what}",
    )
    assert {f"{pipeline}{part}" for part in (*reads, *lookups, *writes)} <= paths
    assert {f"/v1/cluster{part}" for part in ("", "/agents", "/jobs", "/log")} <= paths
    assert {"/v1/pipelines", "/v1/metadata", "/metrics", "/health/live", "/health/ready"} <= paths
    for path, operations in served["paths"].items():
        for operation in operations.values():
            assert operation.get("description") or operation.get("summary"), path
            refused = operation["responses"].get("422")
            assert refused is None or set(refused["content"]) == {"application/problem+json"}, path


def test_records_are_described_by_their_schemas() -> None:
    slices = document()["components"]["schemas"]["InputSlice"]["properties"]
    assert {"from", "to", "digest"} <= set(slices)
    assert slices["digest"]["description"]
