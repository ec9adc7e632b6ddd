"""Every file that a peer fetches is pinned by its hash, in the versions that the table's titles say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.peers import flink, kafka_streams, quix
from bench.peers.peer import Peer
from kcontrol.adapters.kafka.embedded.artifacts import read_lock


@pytest.mark.parametrize("lock", [kafka_streams.LOCK, flink.LOCK])
def test_jars_are_listed_once_with_hash_and_size(lock: Path) -> None:
    artifacts = read_lock(lock.read_text(encoding="utf-8"))
    assert len({each.file_name for each in artifacts}) == len(artifacts)
    assert all(re.fullmatch("[0-9a-f]{64}", each.sha256) and each.size_bytes > 0 for each in artifacts)


@pytest.mark.parametrize(
    ("peer", "lock", "jar"),
    [
        (kafka_streams.PEER, kafka_streams.LOCK, "kafka-streams"),
        (flink.PEER, flink.LOCK, "flink-clients"),
        (flink.MINI_BATCH, flink.LOCK, "flink-clients"),
    ],
)
def test_the_title_has_the_version_of_the_lock(peer: Peer, lock: Path, jar: str) -> None:
    [version] = [each.version for each in read_lock(lock.read_text(encoding="utf-8")) if each.name == jar]
    assert version in peer.title


def test_every_package_of_quix_has_one_version_and_hashes() -> None:
    packages = quix.LOCK.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    assert all(
        re.fullmatch(r"[\w.-]+==\S+(?: .*)?(?:\s+--hash=sha256:[0-9a-f]{64})+\s*", each) for each in packages
    )
    [version] = [each.split("==")[1].split()[0] for each in packages if each.startswith("quixstreams==")]
    assert version in quix.PEER.title
