"""`python -m tests.docker.standins`: stand-ins for official images, on a machine that
reaches Debian but no image registry.

Makes a base with debootstrap (as root), kcontrol's image on it, a broker of the jars that the embedded broker
is of, and Debian's Prometheus, and prints the variables with which the tests of this directory, and
docker/compose.yaml, take them. There is none for Grafana, which Debian does not package.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kcontrol.adapters.kafka.embedded.artifacts import ensure_jars

HERE = Path(__file__).parent
ROOT = Path(__file__).parents[3]
RELEASE = "bookworm"
PACKAGES = "ca-certificates,python3,python3-venv"
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
BASE, KCONTROL, KAFKA, PROMETHEUS = (
    f"kcontrol-standin-{name}" for name in ("base", "kcontrol", "kafka", "prometheus")
)


def make_base() -> None:
    """Debian with Python 3.11. It trusts whom this machine trusts, so that pip works behind the same
    proxies."""
    with tempfile.TemporaryDirectory(prefix="kcontrol-base-") as scratch:
        run(["debootstrap", "--variant=minbase", f"--include={PACKAGES}", RELEASE, scratch])
        if AUTHORITIES.is_file():
            shutil.copy(AUTHORITIES, Path(scratch) / AUTHORITIES.relative_to("/"))
        packed = subprocess.Popen(["tar", "--directory", scratch, "--create", "."], stdout=subprocess.PIPE)
        setting = f"ENV PIP_CERT={AUTHORITIES}"
        subprocess.run(["docker", "import", "--change", setting, "-", BASE], stdin=packed.stdout, check=True)
        if packed.wait() != 0:
            raise RuntimeError("tar failed")


def make_kafka() -> None:
    """Apache Kafka, from the jars of the lock."""
    with tempfile.TemporaryDirectory(prefix="kcontrol-kafka-") as scratch:
        jars = Path(scratch) / "jars"
        jars.mkdir()
        for jar in ensure_jars():
            shutil.copy(jar, jars)
        shutil.copy(HERE / "start.py", scratch)
        build(HERE / "kafka.Dockerfile", Path(scratch), KAFKA, KCONTROL=KCONTROL)


def build(dockerfile: Path, context: Path, tag: str, **arguments: str) -> None:
    """An image; on the host's network, so that it needs none of the engine's."""
    given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    run(
        [
            "docker",
            "build",
            "--network",
            "host",
            "--file",
            str(dockerfile),
            "--tag",
            tag,
            *given,
            str(context),
        ]
    )


def run(command: Sequence[str]) -> None:
    """Raises CalledProcessError."""
    print("+", *command, flush=True)
    subprocess.run(command, check=True)


def main() -> int:
    make_base()
    build(ROOT / "docker" / "Dockerfile", ROOT, KCONTROL, BASE=BASE)
    make_kafka()
    build(HERE / "prometheus.Dockerfile", HERE, PROMETHEUS, BASE=BASE)
    print(f"KCONTROL_IMAGE={KCONTROL} KAFKA_IMAGE={KAFKA} PROMETHEUS_IMAGE={PROMETHEUS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
