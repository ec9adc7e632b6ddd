"""Resources as the API server gives them: with what their schemas fill in."""

from __future__ import annotations

from typing import Any

from kcontrol.core.kubernetes.resources import API_VERSION
from tests.unit.docker.reading import KUBERNETES, read

OPERATOR = KUBERNETES / "operator"
DEFINITIONS = {
    definition["spec"]["names"]["kind"]: definition
    for path in sorted(OPERATOR.glob("*.yaml"))
    for definition in read(path)
    if definition["kind"] == "CustomResourceDefinition"
}


def schema_of(kind: str) -> dict[str, Any]:
    [version] = DEFINITIONS[kind]["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def filled_in(value: Any, schema: dict[str, Any]) -> Any:
    """As the API server does with defaults."""
    if schema.get("type") == "array":
        return [filled_in(each, schema["items"]) for each in value]
    if schema.get("type") != "object" or "properties" not in schema:
        return value
    known = schema["properties"]
    given = {**{name: each["default"] for name, each in known.items() if "default" in each}, **value}
    return {name: filled_in(each, known[name]) for name, each in given.items()}


def resource(kind: str, name: str, spec: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "kcontrol",
            "uid": f"uid-of-{name}",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            **meta,
        },
        "spec": filled_in(spec, schema_of(kind)["properties"]["spec"]),
    }
