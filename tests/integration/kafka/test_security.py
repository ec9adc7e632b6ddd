"""Every client speaks to a broker that wants to know who it is and encrypts what is said."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kcontrol.adapters.kafka.cluster import check_cluster, ensure_topics
from kcontrol.adapters.kafka.control_log import KafkaControlLog
from kcontrol.adapters.kafka.embedded import EmbeddedBroker, find_java
from kcontrol.adapters.kafka.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction import KafkaTransaction
from kcontrol.errors import ClusterError
from kcontrol.runtime.settings import ClusterSettings
from tests.support.ports import free_ports
from tests.support.samples import boundary, desired

PIPELINE = "flights"
USER, PASSWORD, STORE_PASSWORD = "flights", "t0p-secret", "changeit"
_DEADLINE_S = 60.0


@dataclass(frozen=True)
class SecureBroker:
    """Ports of listeners by their security protocol, and the file with the certificate that signs the broker's."""

    sasl_port: int
    sasl_ssl_port: int
    authority: Path

    def settings(self, mechanism: str, password: str = PASSWORD, *, encrypted: bool = False) -> ClusterSettings:
        client = {"sasl.mechanisms": mechanism, "sasl.username": USER, "sasl.password": password}
        if encrypted:
            client |= {"security.protocol": "SASL_SSL", "ssl.ca.location": str(self.authority)}
        else:
            client |= {"security.protocol": "SASL_PLAINTEXT"}
        port = self.sasl_ssl_port if encrypted else self.sasl_port
        return ClusterSettings(bootstrap_servers=f"127.0.0.1:{port}", client=client, prefix=f"c{secrets.token_hex(4)}")


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    directory = tmp_path_factory.mktemp("secure")
    store, authority = directory / "broker.p12", directory / "authority.pem"
    _make_certificate(store, authority)
    port, controller, sasl, sasl_ssl = free_ports(4)
    with EmbeddedBroker(
        directory / "broker", port=port, properties=_properties(port, controller, sasl, sasl_ssl, store)
    ) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        for done in admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, scram, PASSWORD.encode())]).values():
            done.result(_DEADLINE_S)
        yield SecureBroker(sasl, sasl_ssl, authority)


def _properties(port: int, controller: int, sasl: int, sasl_ssl: int, store: Path) -> dict[str, str]:
    plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    outside = f"PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},SECURE://127.0.0.1:{sasl_ssl}"
    logins = {
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config": login
        for listener in ("sasl", "secure")
        for mechanism, login in (("plain", plain), ("scram-sha-512", scram))
    }
    return {
        "listeners": f"{outside},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": outside,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
        **logins,
    }


def _make_certificate(store: Path, authority: Path) -> None:
    keytool = find_java().executable.resolve().with_name("keytool")
    common = ["-alias", "broker", "-keystore", store, "-storetype", "PKCS12", "-storepass", STORE_PASSWORD]
    subject = ["-dname", "CN=127.0.0.1", "-ext", "SAN=IP:127.0.0.1", "-keyalg", "RSA", "-validity", "30"]
    subprocess.run([keytool, "-genkeypair", *common, *subject], check=True, capture_output=True)
    exported = subprocess.run([keytool, "-exportcert", "-rfc", *common], check=True, capture_output=True)
    authority.write_bytes(exported.stdout)


async def _use_everything(settings: ClusterSettings) -> None:
    async with asyncio.timeout(_DEADLINE_S), AsyncExitStack() as stack:
        await check_cluster(settings)
        await asyncio.to_thread(ensure_topics, settings, PIPELINE)
        control = await KafkaControlLog.open(settings, PIPELINE)
        stack.push_async_callback(control.close)
        await control.append([desired(PIPELINE, "secure")])
        assert [logged.record for logged in await control.read_to_end()] == [desired(PIPELINE, "secure")]
        transaction, steps = KafkaTransaction(settings, PIPELINE), KafkaStepsLog(settings, PIPELINE)
        stack.push_async_callback(transaction.close)
        stack.push_async_callback(steps.close)
        producer = await transaction.init_producer(30_000)
        await transaction.add_partitions(*producer, [(settings.names().steps_topic(PIPELINE), 0)])
        await transaction.commit_step(*producer, boundary(PIPELINE, 1))
        assert [logged.record for logged in await anext(steps.tail())] == [boundary(PIPELINE, 1)]


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_all_clients_log_in(secure: SecureBroker, mechanism: str, encrypted: bool) -> None:
    asyncio.run(_use_everything(secure.settings(mechanism, encrypted=encrypted)))


def test_a_wrong_password_is_a_cluster_error_that_does_not_show_it(secure: SecureBroker) -> None:
    with pytest.raises(ClusterError) as raised:
        asyncio.run(check_cluster(secure.settings("PLAIN", "wr0ng-secret")))
    assert "client settings" in str(raised.value)
    assert "wr0ng-secret" not in str(raised.value)


def test_a_certificate_that_nobody_vouches_for_is_refused(secure: SecureBroker, tmp_path: Path) -> None:
    store, stranger = tmp_path / "other.p12", tmp_path / "other.pem"
    _make_certificate(store, stranger)
    trusted = secure.settings("PLAIN", encrypted=True)
    settings = trusted.model_copy(update={"client": {**trusted.client, "ssl.ca.location": str(stranger)}})
    with pytest.raises(ClusterError):
        asyncio.run(check_cluster(settings))
