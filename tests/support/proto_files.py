"""Files of Protobuf compiled as a registry does, with those that they import."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from google.protobuf import descriptor_pb2

from tests.support.patience import HANG_S


def serialized(text: str, imports: Mapping[str, str] | None = None) -> str:
    """A FileDescriptorProto in base64. imports: texts by name."""
    with TemporaryDirectory() as directory:
        for name, each in {**(imports or {}), "value.proto": text}.items():
            path = Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(each)
        command = [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            "-I.",
            "--descriptor_set_out=made",
            "value.proto",
        ]
        subprocess.run(command, cwd=directory, check=True, timeout=HANG_S)
        made = descriptor_pb2.FileDescriptorSet.FromString(Path(directory, "made").read_bytes())
    return base64.b64encode(made.file[0].SerializeToString()).decode()
