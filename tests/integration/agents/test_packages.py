"""Packages of code on a real broker: written once, read by their name, and deleted when nobody names them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics, ensure_packages_topic
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.adapters.kafka.logs.cluster_packages import KafkaPackages, SignedPackage
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.placing import JobCode, place
from kcontrol.apps.agent.trust import PackageSigner
from kcontrol.core.cluster.entries import Prepare
from kcontrol.errors import DamagedRecordError, NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.package_signatures import signature_record
from kcontrol.wire.packages import PACKAGE, package_of, records_of
from tests.support.patience import HANG_S
from tests.support.signing_keys import make_key

CODE = package_of("flights.py", {"flights.py": b"import rules\n", "rules.py": b""})
OTHER = package_of("flights.py", {"flights.py": b"import other\n"})


def test_what_was_submitted_with_its_code_is_there_for_the_hosts_and_nothing_else_is_taken_for_it(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    own = settings.model_copy(update={"prefix": f"packages-{uuid4().hex[:6]}"})
    ensure_cluster_topics(own)
    ensure_packages_topic(own)
    topic = own.names().cluster_packages_topic()

    async def play() -> None:
        packages, log, view = KafkaPackages(own), KafkaClusterLog(own), ClusterView(own)
        writer = Appender(own, topic, 0)
        try:
            await log.append(Prepare("a", "a-1", slots=2, tags=("packages",)))
            with pytest.raises(NotFoundError, match="submit it again"):
                await packages.read(CODE.name)
            await place(view, "flights", 1, JobCode(CODE))
            assert view.replica.jobs["flights"].package == PACKAGE + CODE.name
            assert len(view.replica.places()) == 1
            assert await packages.read(CODE.name) == CODE
            written = [one.offset for one in await packages._all()]
            await packages.save(CODE)
            assert [one.offset for one in await packages._all()] == written, "it is written once"
            await packages.save(CODE, renew_after_ms=0)
            renewed = [one.key for one in await packages._all()]
            assert len(renewed) == len(written) + 1, "but its manifest, if that is old"
            assert await packages.read(CODE.name) == CODE

            await packages.save(OTHER)
            assert await packages.forget({CODE.name}, older_ms=3_600_000) == [], "it was just written"
            assert await packages.forget({CODE.name}, older_ms=0) == [OTHER.name]
            assert await packages.forget({CODE.name}, older_ms=0) == []
            with pytest.raises(NotFoundError):
                await packages.read(OTHER.name)
            assert await packages.read(CODE.name) == CODE

            make_key(tmp_path / "key")
            signature = PackageSigner(tmp_path / "key").sign(CODE.name)
            for _ in range(2):
                await place(view, "flights", 1, JobCode(CODE, signature))
            assert await packages.read_signed(CODE.name) == SignedPackage(CODE, (signature,))
            assert [one.key for one in await packages._all()].count(signature_record(signature)[0]) == 1
            assert len(view.replica.places()) == 1
            assert view.replica.jobs["flights"].revision == 1, "a signature is no other package"

            # Whoever may write the topic can put anything there, and it is not what was submitted.
            [(content, _), _] = records_of(CODE)
            [(_, others), _] = records_of(OTHER)
            await writer.append([(content, others)])
            with pytest.raises(DamagedRecordError):
                await packages.read(CODE.name)
            await place(view, "flights", 1, JobCode(CODE))
            assert await packages.read(CODE.name) == CODE, "whoever submits it again puts it right"
            assert await packages.forget(set(), older_ms=0) == [CODE.name]
            remaining = {one.key: one.value for one in await packages._all()}
            assert remaining[signature_record(signature)[0]] is None, "and its signature with it"
        finally:
            for one in (packages, log, view, writer):
                await one.close()

    asyncio.run(asyncio.wait_for(play(), HANG_S))
