"""As the official image starts: server properties from KAFKA_... variables, a formatted directory, then the
broker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

PROPERTIES = Path("/tmp/server.properties")
JAVA = ["java", "-Xmx512m", "-cp", "/opt/kafka/libs/*"]
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"


def properties(environment: Mapping[str, str]) -> dict[str, str]:
    """KAFKA_A_B is a.b; two underscores stand for one, three for a dash."""
    names = {name: name.removeprefix("KAFKA_").lower() for name in environment if name.startswith("KAFKA_")}
    dotted = {
        name: short.replace("___", "-").replace("__", "\0").replace("_", ".") for name, short in names.items()
    }
    return {short.replace("\0", "_"): environment[name] for name, short in dotted.items()}


def main() -> None:
    """Becomes the broker."""
    PROPERTIES.write_text("".join(f"{name}={value}\n" for name, value in properties(os.environ).items()))
    tool = [
        "kafka.tools.StorageTool",
        "format",
        "--ignore-formatted",
        "--cluster-id",
        CLUSTER_ID,
        "--config",
        str(PROPERTIES),
    ]
    subprocess.run([*JAVA, *tool], check=True)
    os.execvp(JAVA[0], [*JAVA, "kafka.Kafka", str(PROPERTIES)])


if __name__ == "__main__":
    main()
