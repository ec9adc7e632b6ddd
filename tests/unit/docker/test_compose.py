"""docker/compose.yaml means what it says: its files are there, its commands are kcontrol's,
and its parts find each other."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from examples import departures, departures_feed
from kcontrol.adapters.http.access import check_address, is_loopback, read_token
from kcontrol.cli.source import check_number
from kcontrol.definition.loader import load_pipeline
from tests.support.container import IMAGE
from tests.support.patience import HANG_S
from tests.unit.docker.reading import DOCKER, ROOT, read, serves, standing, understood

COMPOSE: dict[str, Any] = read(DOCKER / "compose.yaml")[0]
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if "KCONTROL_IMAGE" in service["image"]}
COMMANDS = {name: service for name, service in OURS.items() if "entrypoint" not in service}
PROBED = re.compile(r"http://127\.0\.0\.1:(?P<port>\d+)(?P<path>/[a-z/]+)")


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """By directory or file in the container: what is there, relative to docker/, or the name of a volume."""
    return {each.split(":")[1]: each.split(":")[0] for each in service.get("volumes", ()) if ":" in each}


def options(name: str) -> dict[str, Any]:
    service = SERVICES[name]
    with standing(DOCKER, service["environment"]):
        return understood(service["command"])


def on_this_machine(service: dict[str, Any], path: PurePosixPath) -> Path:
    """The file of the repository that a container sees there."""
    [(target, source)] = [
        (target, source) for target, source in mounts(service).items() if path.is_relative_to(target)
    ]
    return DOCKER / source / path.relative_to(target)


@pytest.mark.parametrize(
    "path", sorted(DOCKER.rglob("*.yaml")), ids=lambda path: str(path.relative_to(DOCKER))
)
def test_every_yaml_file_is_one_and_says_what_it_is_for(path: Path) -> None:
    assert all(read(path))
    assert path.read_text().startswith("# ")


def test_there_are_two_coordinators_three_nodes_and_those_who_look_on() -> None:
    first = [service["command"][0] for service in COMMANDS.values()]
    assert sorted(first) == ["coordinator"] * 2 + ["node"] * 3 + ["serve"]
    assert {"kafka", "prometheus", "grafana"} <= SERVICES.keys()
    instances = [options(name)["instance"] for name in COMMANDS if name.startswith("coordinator")]
    assert len(set(instances)) == 2


def test_all_files_that_are_mounted_are_there() -> None:
    for name, service in SERVICES.items():
        for source in mounts(service).values():
            assert (DOCKER / source).exists() if source[0] in "./" else source in COMPOSE["volumes"], (
                name,
                source,
            )
        for secret in service.get("secrets", ()):
            assert secret in COMPOSE["secrets"]


def test_its_secrets_are_those_that_the_script_makes_once_and_git_ignores(tmp_path: Path) -> None:
    script = tmp_path / "secrets.sh"
    script.write_text((DOCKER / "secrets.sh").read_text())
    for _ in range(2):
        subprocess.run(["sh", script], check=True, timeout=HANG_S)
        made = {path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()}
        assert sorted(made) == sorted(COMPOSE["secrets"])
        assert read_token(tmp_path / "secrets" / "kcontrol-token").matches(f"Bearer {made['kcontrol-token']}")
        (tmp_path / "secrets" / "kcontrol-token").write_text("a-token-of-the-user-s-own")
    assert made["kcontrol-token"] == "a-token-of-the-user-s-own"
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    for secret in COMPOSE["secrets"].values():
        ignored = ["git", "check-ignore", "--quiet", f"docker/{secret['file']}"]
        assert subprocess.run(ignored, cwd=ROOT, check=False, timeout=HANG_S).returncode == 0


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_one_of_kcontrol_and_asks_for_a_token_beyond_its_container(name: str) -> None:
    service, found = COMMANDS[name], options(name)
    assert found["cluster"].bootstrap_servers in addresses_of_kafka()
    assert not is_loopback(found["host"])
    token_file = found["token_file"]
    assert token_file.parent == Path("/run/secrets")
    assert token_file.name in service["secrets"]
    with pytest.raises(Exception, match="without a token"):
        check_address(found["host"], None)


def test_the_nodes_are_those_of_the_pipeline() -> None:
    numbers = []
    for name, service in COMMANDS.items():
        if service["command"][0] == "node":
            found = options(name)
            pipeline = load_pipeline(on_this_machine(service, PurePosixPath(found["file"])))
            check_number(pipeline, found["number"])
            numbers.append(found["number"])
            assert service["hostname"] == name
            location = service["environment"]["DEPARTURES_CHECKPOINTS"].removeprefix("file://")
            assert mounts(service)[location] == "checkpoints"
    assert sorted(numbers) == list(range(departures.NODES))
    work = [mounts(SERVICES[f"node-{number}"])["/var/lib/kcontrol"] for number in numbers]
    assert len(set(work)) == len(work)


@pytest.mark.parametrize("name", sorted(set(OURS) - set(COMMANDS)))
def test_the_scripts_beside_kcontrol_are_the_example_s(name: str) -> None:
    service = OURS[name]
    script, what, address, *_ = service["command"]
    assert (
        on_this_machine(service, PurePosixPath(script))
        == DOCKER / ".." / "examples" / Path(departures_feed.__file__).name
    )
    assert what in ("topics", "send")
    assert address in addresses_of_kafka()


def addresses_of_kafka() -> set[str]:
    advertised = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    return {listener.partition("://")[2] for listener in advertised if listener.startswith("INSIDE")}


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_health_check_asks_for_what_is_served(name: str) -> None:
    service, found = COMMANDS[name], options(name)
    probed = PROBED.search(" ".join(service["healthcheck"]["test"]))
    assert probed is not None
    assert int(probed["port"]) == found["port"]
    assert serves(service["command"][0], probed["path"])


def test_nothing_is_published_beyond_this_machine() -> None:
    published = [port.rsplit(":", 2) for service in SERVICES.values() for port in service.get("ports", ())]
    assert {host for host, _, _ in published} == {"127.0.0.1"}
    assert len({port for _, port, _ in published}) == len(published) == 4
    for text in (*DOCKER.glob("*.yaml"), DOCKER / "Dockerfile"):
        assert not re.search(r"privileged|docker\.sock|network_mode|EXPOSE", text.read_text())


def test_containers_of_kcontrol_have_no_rights_and_write_to_what_is_mounted() -> None:
    for name, service in OURS.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges=true"]
        assert service["pull_policy"] == "never"
    for name in COMMANDS:
        places = [*SERVICES[name].get("tmpfs", ()), *SERVICES[name].get("volumes", ())]
        assert [place for place in places if place.split(":")[0] == "/tmp"], name


def test_whoever_is_waited_for_can_be() -> None:
    for service in SERVICES.values():
        after = service.get("depends_on", ())
        for name, how in after.items() if isinstance(after, dict) else ():
            if how["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[name]
            else:
                assert "restart" not in SERVICES[name]
        assert set(after) <= SERVICES.keys()


def test_prometheus_asks_every_server_with_the_token_and_knows_the_alerts() -> None:
    service = SERVICES["prometheus"]
    [config] = [each.partition("=")[2] for each in service["command"] if each.startswith("--config.file=")]
    file = on_this_machine(service, PurePosixPath(config))
    [prometheus] = read(file)
    assert [(file.parent / rules).is_file() for rules in prometheus["rule_files"]] == [True]
    asked = [
        target
        for job in prometheus["scrape_configs"]
        for each in job["static_configs"]
        for target in each["targets"]
    ]
    assert sorted(asked) == sorted(f"{name}:{options(name)['port']}" for name in COMMANDS)
    for job in prometheus["scrape_configs"]:
        assert job["job_name"].startswith("kcontrol")
        assert PurePosixPath(job["authorization"]["credentials_file"]) in {
            PurePosixPath("/run/secrets", secret) for secret in service["secrets"]
        }
    assert all(serves(service["command"][0], "/metrics") for service in COMMANDS.values())


def test_grafana_asks_prometheus_and_shows_the_dashboard() -> None:
    mounted = mounts(SERVICES["grafana"])
    provisioning = DOCKER / mounted["/etc/grafana/provisioning"]
    [sources] = read(provisioning / "datasources" / "prometheus.yaml")
    [published] = SERVICES["prometheus"]["ports"]
    assert [source["url"] for source in sources["datasources"]] == [
        f"http://prometheus:{published.rsplit(':')[-1]}"
    ]
    [provider] = read(provisioning / "dashboards" / "kcontrol.yaml")[0]["providers"]
    shown = [source for target, source in mounted.items() if target.startswith(provider["options"]["path"])]
    assert shown == ["./grafana/kcontrol.json"]
    password = SERVICES["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD__FILE"]
    assert PurePosixPath(password).name in SERVICES["grafana"]["secrets"]


def test_both_brokers_are_of_the_version_that_is_tested() -> None:
    alone = read(DOCKER / "kafka.yaml")[0]["services"]["kafka"]
    assert SERVICES["kafka"]["image"] == f"${{KAFKA_IMAGE:-{alone['image']}}}"
    assert alone["image"] == IMAGE
