"""The broker that stands in for the official image takes the same variables."""

from __future__ import annotations

from tests.docker.standins.start import properties
from tests.unit.docker.reading import DOCKER, read


def test_variables_become_server_properties_as_in_the_official_image() -> None:
    environment = read(DOCKER / "compose.yaml")[0]["services"]["kafka"]["environment"]
    found = properties({**environment, "PATH": "/bin"})
    assert len(found) == len(environment)
    assert found["advertised.listeners"] == "INSIDE://kafka:19092,HOST://127.0.0.1:9092"
    assert found["transaction.state.log.min.isr"] == "1"
    assert properties({"KAFKA_A__B_C___D": "x"}) == {"a_b.c-d": "x"}
