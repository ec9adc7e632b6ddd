"""A real S3 server as a child process: S3Proxy over a directory, fetched like the
broker's jars and checked like them."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import urlencode

from pyarrow import fs

from kcontrol.adapters.java import find_java
from kcontrol.adapters.kafka.embedded.artifacts import ensure_jars, read_lock
from kcontrol.adapters.kafka.embedded.pausing import pause_child
from tests.support.patience import HANG_S
from tests.support.ports import free_ports

LOCK = Path(__file__).with_name("s3proxy.lock")
REGION = "us-east-1"
_PROBE_WAIT_S = 0.1


class S3Server:
    """S3 on 127.0.0.1 with a bucket of its own. Asks for signed requests, as S3 does:
    `environment` holds the credentials."""

    def __init__(self, directory: Path, bucket: str = "checkpoints") -> None:
        self._directory, self.bucket = directory, bucket
        (self._port,) = free_ports(1)
        self.environment = {
            "AWS_ACCESS_KEY_ID": secrets.token_hex(8),
            "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _settings(self) -> dict[str, str]:
        return {"scheme": "http", "endpoint_override": f"127.0.0.1:{self._port}", "region": REGION}

    def location(self, path: str) -> str:
        """A directory in the bucket, as a pipeline names it."""
        return f"s3://{self.bucket}/{path}?{urlencode(self._settings)}"

    def client(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key=self.environment["AWS_ACCESS_KEY_ID"],
            secret_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            allow_bucket_creation=True,
            **self._settings,
        )

    @property
    def for_aws_clients(self) -> dict[str, str]:
        """The variables of botocore."""
        return {
            **self.environment,
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{self._port}",
            "AWS_DEFAULT_REGION": REGION,
        }

    @property
    def for_pyiceberg(self) -> dict[str, str]:
        """Of a catalog whose tables are in the bucket: the ends of its variables' names."""
        return {
            "WAREHOUSE": f"s3://{self.bucket}",
            "S3__ENDPOINT": f"http://127.0.0.1:{self._port}",
            "S3__REGION": REGION,
            "S3__ACCESS_KEY_ID": self.environment["AWS_ACCESS_KEY_ID"],
            "S3__SECRET_ACCESS_KEY": self.environment["AWS_SECRET_ACCESS_KEY"],
        }

    def start(self) -> None:
        """Start, and return when it answers; what was stored before is still there."""
        (jar,) = ensure_jars(artifacts=read_lock(LOCK.read_text(encoding="utf-8")))
        stored = self._directory / "stored"
        stored.mkdir(parents=True, exist_ok=True)
        properties = {
            "s3proxy.endpoint": f"http://127.0.0.1:{self._port}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": self.environment["AWS_ACCESS_KEY_ID"],
            "s3proxy.credential": self.environment["AWS_SECRET_ACCESS_KEY"],
            "jclouds.provider": "filesystem-nio2",
            "jclouds.filesystem.basedir": str(stored),
        }
        settings = self._directory / "s3proxy.conf"
        settings.write_text(
            "".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8"
        )
        command = [
            find_java().executable,
            "-Xmx128m",
            "-XX:TieredStopAtLevel=1",
            "-jar",
            jar,
            "--properties",
            settings,
        ]
        with (self._directory / "s3proxy.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "LOG_LEVEL": "warn"},
            )
        deadline = time.monotonic() + HANG_S
        while True:
            try:
                self.client().create_dir(self.bucket)
                return
            except OSError as error:
                ended = self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    said = (self._directory / "s3proxy.log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(
                        f"S3Proxy {'ended' if ended else 'did not answer'}: {error}\n{said}"
                    ) from error
                self._process_wait()

    def _process_wait(self) -> None:
        assert self._process is not None
        try:
            self._process.wait(_PROBE_WAIT_S)
        except subprocess.TimeoutExpired:
            pass

    def pause(self) -> None:
        """SIGSTOP: connections stay and nothing is answered, until `stop`."""
        assert self._process is not None
        pause_child(self._process.pid)

    def stop(self) -> None:
        """SIGKILL: as when the machine is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> S3Server:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
