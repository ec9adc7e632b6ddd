"""Finds the cluster: a command's option before the environment before `kcontrol.toml` in the working
directory.

    [kafka]
    bootstrap_servers = "broker-1:9092,broker-2:9092"
    prefix = "kcontrol"
    replication_factor = 3              # of kcontrol's own topics
    min_insync_replicas = 2

    [kafka.client]                      # librdkafka's names
    "security.protocol" = "SASL_SSL"
    "sasl.password" = "${KAFKA_PASSWORD}"

    [kafka.names]                       # only those that differ
    control_topic = "team.control"

    [schema_registry]                   # for the formats confluent-...
    url = "https://registry:8081"

    [schema_registry.client]            # Confluent's names
    "basic.auth.user.info" = "kcontrol:${REGISTRY_PASSWORD}"

`${NAME}` is replaced from the environment, so that no secret needs to be in the file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.registry import RegistrySettings
from kcontrol.wire.names import Names

FILE_NAME = "kcontrol.toml"
ENVIRONMENT_NAME = "KCONTROL_BOOTSTRAP_SERVERS"

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SCALARS = ("prefix", "replication_factor", "min_insync_replicas")
_TABLE = ("bootstrap_servers", *_SCALARS, "client", "names")
_KAFKA, _REGISTRY = "kafka", "schema_registry"


def find_bootstrap_servers(option: str | None, env: Mapping[str, str], cwd: Path) -> str | None:
    """The address of Kafka if one was given anywhere. Raises ConfigurationError if the file is wrong."""
    return option or env.get(ENVIRONMENT_NAME) or _read_table(env, cwd).get("bootstrap_servers")


def find_names(env: Mapping[str, str], cwd: Path) -> tuple[str | None, Names]:
    """The address, if one was given anywhere, and the names that kcontrol gives to things
    there; no client setting is used.

    Raises ConfigurationError if the file is wrong.
    """
    table = _read_table(env, cwd, ("bootstrap_servers", "prefix", "names"))
    servers = env.get(ENVIRONMENT_NAME) or table.get("bootstrap_servers")
    overrides = table.get("names", {})
    return servers, Names(table.get("prefix", "kcontrol"), overrides if isinstance(overrides, dict) else {})


def resolve_settings(option: str | None, env: Mapping[str, str], cwd: Path) -> ClusterSettings:
    """Settings of the cluster. Client settings, prefix and names come from the file,
    wherever the address comes from.

    option: the value of `--bootstrap-servers`, if it was given. Raises ConfigurationError if there is no
    address or something is wrong; secrets are not in its message.
    """
    table = _read_table(env, cwd)
    servers = find_bootstrap_servers(option, env, cwd)
    if servers is None:
        raise ConfigurationError(
            f"no Kafka address: give --bootstrap-servers HOST:PORT, set {ENVIRONMENT_NAME}, "
            f"or put bootstrap_servers into the table [kafka] of {cwd / FILE_NAME}"
        )
    rest = {"client": table.get("client"), "name_overrides": table.get("names")}
    rest |= {name: table.get(name) for name in _SCALARS}
    given = {name: value for name, value in rest.items() if value is not None}
    registry = _registry(env, cwd)
    try:
        settings = ClusterSettings(bootstrap_servers=servers, schema_registry=registry, **given)
    except ValidationError as error:
        raise ConfigurationError(f"Kafka settings: {_problems(error)}") from None
    settings.names()
    return settings


def _registry(env: Mapping[str, str], cwd: Path) -> RegistrySettings | None:
    """The table [schema_registry], if there is one."""
    file = cwd / FILE_NAME
    table = _content(file).get(_REGISTRY)
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ConfigurationError(f"{file}: {_REGISTRY} must be a table: [{_REGISTRY}]")
    try:
        return RegistrySettings(**_fill_in(table, env, file, _REGISTRY))
    except ValidationError as error:
        raise ConfigurationError(f"{file}: [{_REGISTRY}]: {_problems(error)}") from None


def _problems(error: ValidationError) -> str:
    return "; ".join(_problem(detail) for detail in error.errors(include_input=False, include_url=False))


def _problem(detail: Any) -> str:
    message = str(detail["msg"]).removeprefix("Value error, ")
    return message if detail["type"] == "value_error" else f"{'.'.join(map(str, detail['loc']))}: {message}"


def _read_table(env: Mapping[str, str], cwd: Path, wanted: Collection[str] = _TABLE) -> dict[str, Any]:
    """wanted: only these settings, so that variables for others need not be there."""
    file = cwd / FILE_NAME
    content = _content(file)
    table = content.get(_KAFKA, {})
    if unknown := [name for name in content if name not in (_KAFKA, _REGISTRY)]:
        raise ConfigurationError(
            f"{file}: there is no table [{unknown[0]}]; settings belong into [{_KAFKA}], those of a registry of "
            f"schemas into [{_REGISTRY}]"
        )
    if not isinstance(table, dict):
        raise ConfigurationError(f"{file}: kafka must be a table: [kafka]")
    if unknown := [name for name in table if name not in _TABLE]:
        raise ConfigurationError(
            f"{file}: [kafka] has no setting {unknown[0]!r}; there are {', '.join(_TABLE)}"
        )
    chosen = {name: value for name, value in table.items() if name in wanted}
    filled: dict[str, Any] = _fill_in(chosen, env, file, "kafka")
    return filled


def _content(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{file} can't be read: {error}") from error


def _fill_in(value: Any, env: Mapping[str, str], file: Path, where: str) -> Any:
    """Replace `${NAME}` in every text, and make texts of numbers and booleans as Kafka's clients write
    them."""
    if isinstance(value, dict):
        return {name: _fill_in(each, env, file, f"{where}.{name}") for name, each in value.items()}
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if not isinstance(value, str):
        raise ConfigurationError(f"{file}: {where} must be a text, a number or true or false")

    def variable(match: re.Match[str]) -> str:
        if match[1] not in env:
            raise ConfigurationError(
                f"{file}: {where} needs the environment variable {match[1]}, which is not set"
            )
        return env[match[1]]

    return _VARIABLE.sub(variable, value)
