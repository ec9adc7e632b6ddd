"""Every client speaks to a broker that wants to know who it is and encrypts what is said;
what is refused is said at once."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.admin.cluster import check_cluster, ensure_topics
from kcontrol.adapters.kafka.admin.groups import check_may_join
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.rights import Operation, group, topic, transactional_id
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.errors import AccessError, ClusterError, KcontrolError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.keys import rsa_key
from tests.support.owning import commit
from tests.support.patience import HANG_S
from tests.support.samples import boundary, desired
from tests.support.secured import AUDIENCE, CERTIFICATE_OWNER, SecuredBroker, expires_s
from tests.support.transactions import TRANSACTION_MS

PIPELINE = "flights"
_DEADLINE_S = HANG_S
_OIDC_SECRET = "marker-oidc-secret"


async def _use_everything(settings: ClusterSettings) -> None:
    async with asyncio.timeout(_DEADLINE_S), AsyncExitStack() as stack:
        await check_cluster(settings)
        await asyncio.to_thread(ensure_topics, settings, PIPELINE)
        await check_may_join(settings)
        control = await KafkaControlLog.open(settings, PIPELINE)
        stack.push_async_callback(control.close)
        await control.append([desired(PIPELINE, "secure")])
        assert [logged.record for logged in await control.read_to_end()] == [desired(PIPELINE, "secure")]
        transaction, steps = KafkaTransaction(settings, PIPELINE), KafkaStepsLog(settings, PIPELINE)
        stack.push_async_callback(transaction.close)
        stack.push_async_callback(steps.close)
        producer = await transaction.init_producer(TRANSACTION_MS)
        await transaction.add_partitions(*producer, [(settings.names().steps_topic(PIPELINE), 0)])
        await commit(transaction, steps, producer, boundary(PIPELINE, 1))
        await transaction.init_producer(TRANSACTION_MS)
        assert [logged.record for logged in await steps.read_settled(transaction.log_end)] == [
            boundary(PIPELINE, 1)
        ]


def everything(settings: ClusterSettings) -> list:
    """All that `_use_everything` needs."""
    names = settings.names()
    use = (Operation.CREATE, Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS)
    return [
        topic(names.control_topic(), *use),
        topic(names.steps_topic(PIPELINE), *use),
        group(names.coordinator_group(), Operation.READ),
        transactional_id(names.transactional_id(PIPELINE), Operation.WRITE),
    ]


@dataclass
class TokenEndpoint:
    """An OAuth endpoint that gives one client signed tokens. asked: how often."""

    address: str
    subject: str = "oidc"
    asked: int = 0


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.asked += 1
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            known = f"client_secret={_OIDC_SECRET}" in form or "Authorization" in self.headers
            self.send_response(200 if known else 401)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(
                json.dumps({"access_token": signed(found.subject), "expires_in": 3600}).encode()
                if known
                else b"{}"
            )

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = TokenEndpoint(f"http://127.0.0.1:{server.server_address[1]}/token")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


def signed(subject: str, key: str = "tokens") -> str:
    now_s = int(time.time())
    claims = {
        "sub": subject,
        "aud": AUDIENCE,
        "iss": "tests",
        "iat": now_s,
        "exp": now_s + 3_600,
        "scope": "kafka",
    }
    return rsa_key(key).token(claims)


def lent_token() -> tuple[str, float]:
    """A token as a function of a user's would get it."""
    return signed("lent"), expires_s()


def forged_token() -> tuple[str, float]:
    """One that nobody vouches for."""
    return signed("lent", "client"), expires_s()


def oauth(secured: SecuredBroker, **more: str) -> dict[str, str]:
    client = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(secured.authority),
        "sasl.mechanisms": "OAUTHBEARER",
    }
    return {**client, **{name.replace("_", "."): value for name, value in more.items()}}


def oidc(secured: SecuredBroker, endpoint: TokenEndpoint, secret: str = _OIDC_SECRET) -> dict[str, str]:
    return {
        **oauth(secured),
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "kcontrol-tests",
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.token.endpoint.url": endpoint.address,
    }


@pytest.mark.parametrize("listener", ["SASL", "SECURE"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_all_clients_log_in_with_a_password(secured: SecuredBroker, mechanism: str, listener: str) -> None:
    if mechanism == "PLAIN":
        user = "plain"
        secured.passwords[user] = "marker-plain-pw"
    else:
        user = secured.unique("scram")
        secured.add_users(user)
    client = secured.client(user, mechanism)
    if listener == "SASL":
        client = {**client, "security.protocol": "SASL_PLAINTEXT"}
        del client["ssl.ca.location"]
    settings = secured.settings(client, listener, secured.unique("login"))
    secured.grant({user: everything(settings)})
    asyncio.run(_use_everything(settings))


def test_all_clients_log_in_with_a_certificate(secured: SecuredBroker) -> None:
    client = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.authority),
        "ssl.certificate.location": str(secured.directory / "client-certificate.pem"),
        "ssl.key.location": str(secured.directory / "client-key.pem"),
    }
    settings = secured.settings(client, "MUTUAL", secured.unique("login"))
    secured.grant({f"CN={CERTIFICATE_OWNER}": everything(settings)})
    asyncio.run(_use_everything(settings))
    anonymous = secured.settings(
        {name: client[name] for name in ("security.protocol", "ssl.ca.location")}, "MUTUAL"
    )
    with pytest.raises(AccessError, match=r"TLS failed.*ssl\.certificate\.location"):
        asyncio.run(check_cluster(anonymous))


def test_all_clients_log_in_with_tokens_of_an_endpoint(
    secured: SecuredBroker, endpoint: TokenEndpoint
) -> None:
    settings = secured.settings(oidc(secured, endpoint), "SECURE", secured.unique("login"))
    secured.grant({endpoint.subject: everything(settings)})
    asyncio.run(_use_everything(settings))
    assert endpoint.asked


def test_all_clients_log_in_with_tokens_of_a_users_function(secured: SecuredBroker) -> None:
    client = {**oauth(secured), "sasl.oauthbearer.token.provider": f"{__name__}:lent_token"}
    settings = secured.settings(client, "SECURE", secured.unique("login"))
    secured.grant({"lent": everything(settings)})
    asyncio.run(_use_everything(settings))


async def _first_words(settings: ClusterSettings) -> list[str]:
    """What each kind of client says to a broker that refuses it, by aiokafka's bare
    client, its producer, and librdkafka."""

    async def look() -> None:
        await asyncio.to_thread(TopicAdmin(settings).find, "anything")

    appender = Appender(settings, "anything", 0)
    said = []
    for action in (check_cluster(settings), appender.append([(b"k", b"v")]), look()):
        async with asyncio.timeout(_DEADLINE_S):
            with pytest.raises(AccessError) as raised:
                await action
            said.append(str(raised.value))
    await appender.close()
    return said


def test_a_wrong_password_is_said_at_once_by_every_client_and_not_shown(secured: SecuredBroker) -> None:
    user = secured.unique("forgetful")
    secured.add_users(user)
    client = {**secured.client(user), "sasl.password": "wr0ng-marker"}
    for said in asyncio.run(_first_words(secured.settings(client))):
        assert f"User:{user}" in said
        assert "client settings" in said
        assert "wr0ng-marker" not in said


def test_a_certificate_that_nobody_vouches_for_is_refused_by_every_client(
    secured: SecuredBroker, tmp_path: Path
) -> None:
    user, stranger = secured.unique("careful"), tmp_path / "stranger.pem"
    secured.add_users(user)
    stranger.write_text(rsa_key("client").certificate_pem("broker"))
    client = {**secured.client(user), "ssl.ca.location": str(stranger)}
    for said in asyncio.run(_first_words(secured.settings(client))):
        assert "certificate" in said


def test_a_mechanism_that_the_broker_does_not_have_is_named(secured: SecuredBroker) -> None:
    user = secured.unique("old")
    secured.add_users(user)
    with pytest.raises(AccessError, match="SCRAM-SHA-256"):
        asyncio.run(check_cluster(secured.settings(secured.client(user, "SCRAM-SHA-256"))))


def test_an_endpoint_that_refuses_us_is_named_and_the_secret_is_not(
    secured: SecuredBroker, endpoint: TokenEndpoint
) -> None:
    settings = secured.settings(oidc(secured, endpoint, "wr0ng-marker"))
    with pytest.raises(
        AccessError, match=rf"{endpoint.address} gives no OAuth token: it answers 401"
    ) as raised:
        asyncio.run(check_cluster(settings))
    assert "wr0ng-marker" not in str(raised.value)


def test_a_token_that_nobody_vouches_for_is_refused(secured: SecuredBroker) -> None:
    client = {**oauth(secured), "sasl.oauthbearer.token.provider": f"{__name__}:forged_token"}
    with pytest.raises(AccessError, match="does not accept the login of the subject of the OAuth token"):
        asyncio.run(check_cluster(secured.settings(client)))


@pytest.mark.parametrize("listener", ["SASL", "SECURE", "MUTUAL"])
def test_without_any_settings_nobody_waits_for_ever(secured: SecuredBroker, listener: str) -> None:
    with pytest.raises(ClusterError, match="the client settings"):
        asyncio.run(check_cluster(secured.settings({}, listener), timeout_s=5))


def test_an_anonymous_client_is_told_so(secured: SecuredBroker) -> None:
    settings = secured.settings({}, "PLAINTEXT", secured.unique("login"))

    async def look() -> None:
        await KafkaControlLog.open(settings, PIPELINE)

    with pytest.raises(
        AccessError, match=r"User:ANONYMOUS \(no credentials are set\) the operation Read on topic"
    ):
        asyncio.run(look())
    assert issubclass(AccessError, KcontrolError)
