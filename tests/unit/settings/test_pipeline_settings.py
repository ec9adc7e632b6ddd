"""Where Kafka is: option before environment before file; and no secret in any message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.toml import ENVIRONMENT_NAME, FILE_NAME, find_bootstrap_servers, resolve_settings

FILE = """
[kafka]
bootstrap_servers = "file:9092"
prefix = "team"

[kafka.client]
"security.protocol" = "SASL_SSL"
"sasl.password" = "pre-${SECRET}"
"socket.timeout.ms" = 500
"socket.keepalive.enable" = true

[kafka.names]
control_topic = "team.ctl"
"""


def write(folder: Path, text: str) -> Path:
    (folder / FILE_NAME).write_text(text)
    return folder


def test_option_then_environment_then_file(tmp_path: Path) -> None:
    write(tmp_path, FILE)
    env = {"SECRET": "s3cret"}
    assert (
        resolve_settings("option:1", {**env, ENVIRONMENT_NAME: "env:2"}, tmp_path).bootstrap_servers
        == "option:1"
    )
    assert resolve_settings(None, {**env, ENVIRONMENT_NAME: "env:2"}, tmp_path).bootstrap_servers == "env:2"
    assert resolve_settings(None, env, tmp_path).bootstrap_servers == "file:9092"


def test_the_rest_comes_from_the_file_whoever_gave_the_address(tmp_path: Path) -> None:
    settings = resolve_settings("option:1", {"SECRET": "s3cret"}, write(tmp_path, FILE))
    assert settings.client == {
        "security.protocol": "SASL_SSL",
        "sasl.password": "pre-s3cret",
        "socket.timeout.ms": "500",
        "socket.keepalive.enable": "true",
    }
    assert settings.names().control_topic() == "team.ctl"
    assert settings.names().steps_topic("flights") == "team.flights.steps"


def test_no_address(tmp_path: Path) -> None:
    assert find_bootstrap_servers(None, {}, tmp_path) is None
    with pytest.raises(
        ConfigurationError, match=f"--bootstrap-servers HOST:PORT, set {ENVIRONMENT_NAME}, .*{FILE_NAME}"
    ):
        resolve_settings(None, {}, tmp_path)


def test_settings_survive_the_way_to_another_process(tmp_path: Path) -> None:
    settings = resolve_settings(None, {"SECRET": "s3cret"}, write(tmp_path, FILE))
    assert ClusterSettings.model_validate_json(settings.to_json()) == settings


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    settings = resolve_settings(None, {"SECRET": "s3cret"}, write(tmp_path, FILE))
    assert "s3cret" not in repr(settings) + str(settings)
    wrong: dict[str, Any] = {"bootstrap_servers": "a:1", "client": {"sasl.password": ["s3cret"]}}
    with pytest.raises(ValidationError) as refused:
        ClusterSettings(**wrong)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[kafka", "can't be read"),
        ("[kafak]\na = 1", r"no table \[kafak\]"),
        ("kafka = 5", "kafka must be a table"),
        (
            "[kafka]\nbootstrap = 'a:1'",
            r"\[kafka\] has no setting 'bootstrap'; there are bootstrap_servers, prefix",
        ),
        ("[kafka]\nbootstrap_servers = ['a:1']", "kafka.bootstrap_servers must be a text"),
        ("[kafka]\nbootstrap_servers = 'a'", "'a' is not host:port"),
        ("[kafka]\nbootstrap_servers = 'a:1,b:99999'", "'b:99999' is not host:port"),
        ("[kafka]\nbootstrap_servers = 'a:1'\nprefix = 'a b'", "prefix 'a b'"),
        ("[kafka]\nbootstrap_servers = 'a:1'\nclient = 'x'", "client: "),
        (
            "[kafka]\nbootstrap_servers = 'a:1'\nclient.'isolation.level' = 'x'",
            "client setting 'isolation.level' can't be set",
        ),
        (
            "[kafka]\nbootstrap_servers = 'a:1'\nclient.'sasl.password' = '${S}'",
            "kafka.client.sasl.password needs .* S, which",
        ),
        ("[kafka]\nbootstrap_servers = 'a:1'\nnames.topic = 'x'", "no name 'topic' to override"),
    ],
)
def test_a_wrong_file(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        resolve_settings(None, {}, write(tmp_path, text))
