"""Packages of code on Kafka, in a compacted topic of one partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.errors import DamagedRecordError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.package_signatures import PackageSignature, PackageSignatures, signature_record
from kcontrol.wire.packages import CodePackage, PackageParts, is_manifest_of, records_of

FORGET_AFTER_MS = 24 * 3_600_000
RENEW_AFTER_MS = FORGET_AFTER_MS // 2


@dataclass(frozen=True, slots=True)
class SignedPackage:
    """A package that is what its name says, and signatures that nobody has looked at."""

    package: CodePackage
    signatures: tuple[PackageSignature, ...] = ()


class KafkaPackages:
    """All methods raise RetriableError when Kafka is away, AccessError and TopicError."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._topic = settings.names().cluster_packages_topic()
        self._rpc = KafkaRpc(settings)
        self._appender = Appender(settings, self._topic, 0)

    async def save(self, package: CodePackage, renew_after_ms: int = RENEW_AFTER_MS) -> None:
        """Unless it is there, and as it should be. Its manifest is written once more if it was written so long ago: whoever has
        not heard that a job is about to run it would delete it as too old. Raises ConfigurationError for one that is too
        large."""
        records = await self._all()
        there = _manifest_record(records, package)
        if there is None:
            for record in records_of(package):
                await self._appender.append([record])
            return
        newest_ms = max(SystemClock().now_ms(), *(record.timestamp_ms for record in records))
        if newest_ms - there.timestamp_ms >= renew_after_ms:
            await self._appender.append([(there.key or b"", there.value)])

    async def sign(self, signature: PackageSignature) -> None:
        """Put it beside its package, unless it is there."""
        if signature not in await self._signatures(signature.package):
            await self._appender.append([signature_record(signature)])

    async def read(self, name: str) -> CodePackage:
        """As `read_signed`, without its signatures."""
        return (await self.read_signed(name)).package

    async def read_signed(self, name: str) -> SignedPackage:
        """Raises NotFoundError: it is not there. DamagedRecordError: what is there is another one, or may not be
        unpacked."""
        parts, signatures = PackageParts(name), PackageSignatures(name)
        for record in await self._all():
            parts.see(record.key, record.value)
            signatures.see(record.key, record.value)
        if not parts.is_whole:
            raise NotFoundError(f"package {name} is not in topic {self._topic!r}: submit it again")
        return SignedPackage(parts.package(), signatures.all())

    async def forget(self, besides: Collection[str], older_ms: int = FORGET_AFTER_MS) -> list[str]:
        """Delete packages that are not among these and were written so long before the newest record: whoever has just
        written one is about to say which job runs it. Their names."""
        gone = list[str]()
        for name in _old(await self._all(), besides, older_ms):
            # Somebody may have written it anew while others were deleted.
            keys = _old(await self._all(), besides, older_ms).get(name, ())
            for key in keys:
                await self._appender.append([(key, None)])
            gone += [name] if keys else []
        return sorted(gone)

    async def _signatures(self, name: str) -> tuple[PackageSignature, ...]:
        signatures = PackageSignatures(name)
        for record in await self._all():
            signatures.see(record.key, record.value)
        return signatures.all()

    async def _all(self) -> list[RawRecord]:
        return await PartitionReader(self._rpc, self._topic, 0, READ_UNCOMMITTED).read_all()

    async def close(self) -> None:
        await self._appender.close()
        await self._rpc.close()


def _manifest_record(records: Iterable[RawRecord], package: CodePackage) -> RawRecord | None:
    """The newest; None if the package is not there, or not as it should be."""
    parts, found = PackageParts(package.name), None
    for record in records:
        parts.see(record.key, record.value)
        if is_manifest_of(package.name, record.key):
            found = record
    with suppress(DamagedRecordError):
        if parts.is_whole and parts.package() == package:
            return found
    return None


def _old(records: Iterable[RawRecord], besides: Collection[str], older_ms: int) -> dict[str, list[bytes]]:
    """Packages that may be deleted: the keys of each."""
    newest_ms, last_ms, keys = 0, dict[str, int](), dict[bytes, str]()
    for record in records:
        newest_ms = max(newest_ms, record.timestamp_ms)
        name = (record.key or b"").decode(errors="replace").partition("/")[0]
        last_ms[name] = max(record.timestamp_ms, last_ms.get(name, 0))
        if record.key and record.value is not None:
            keys[record.key] = name
        elif record.key:
            keys.pop(record.key, None)
    found = dict[str, list[bytes]]()
    for key, name in keys.items():
        if name not in besides and newest_ms - last_ms[name] >= older_ms:
            found.setdefault(name, []).append(key)
    return found
