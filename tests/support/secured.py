"""A broker that wants to know who everybody is and allows nothing that was not granted.

TLS with SCRAM, PLAIN, OAUTHBEARER (tokens signed by a key whose public half it has) or a client's
certificate; StandardAuthorizer, nothing without an ACL, and one super user, who is the test's admin and the
broker itself. What was allowed to whom by which ACL is read from the log of the authorizer.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import admin as untyped_admin

from kcontrol.adapters.kafka.client.rights import Right
from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.errors import ClusterError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.keys import rsa_key
from tests.support.patience import HANG_S
from tests.support.ports import free_ports
from tests.support.processes import until
from tests.support.topics import kept

TIMEOUT_S = HANG_S
ADMIN, ADMIN_PASSWORD = "admin", "adm1n-marker-Zq7"
AUDIENCE = "kafka"
ATTEMPTS = 4
LISTENERS = ("PLAINTEXT", "ADMIN", "SASL", "SECURE", "MUTUAL", "CONTROLLER")
CERTIFICATE_OWNER = "mutual"

_kafka: Any = untyped_admin
_LOGIN = "org.apache.kafka.common.security"
_VALIDATOR = f"{_LOGIN}.oauthbearer.OAuthBearerValidatorCallbackHandler"
_ALLOWED = re.compile(
    r"Principal = User:(?P<user>\S+) is Allowed operation = (?P<operation>\w+) from host = \S+ .*?on resource = \S+ .*?"
    r"StandardAcl.resourceType=(?P<kind>\w+), resourceName=(?P<name>[^,]+), patternType=\w+, principal=[^,]+, host=[^,]+, "
    r"operation=(?P<granted>\w+),"
)

Granted = tuple[str, str, str]
"""Kind of resource, its name, operation: all of an ACL that differs here, in Kafka's spelling
(`TOPIC`, `DESCRIBE_CONFIGS`)."""


def granted(rights: Iterable[Right]) -> set[Granted]:
    """The ACLs that rights come to."""
    return {
        (right.kind.name, right.name, operation.name) for right in rights for operation in right.operations
    }


@dataclass
class SecuredBroker:
    """One that runs."""

    broker: EmbeddedBroker
    directory: Path
    ports: dict[str, int]
    passwords: dict[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def authority(self) -> Path:
        """The certificate of the broker, which vouches for itself."""
        return self.directory / "authority.pem"

    def unique(self, stem: str) -> str:
        """A name that nobody else has."""
        return f"{stem}-{next(self._numbers)}"

    # --- who speaks how -------------------------------------------------------------------------------------

    def address(self, listener: str) -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def settings(
        self, client: dict[str, str], listener: str = "SECURE", prefix: str = "kcontrol"
    ) -> ClusterSettings:
        """Any client settings on any listener: PLAINTEXT, ADMIN, SASL, SECURE or MUTUAL."""
        return ClusterSettings(bootstrap_servers=self.address(listener), client=client, prefix=prefix)

    def client(self, user: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """Client settings of a user, over TLS."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanisms": mechanism,
            "sasl.username": user,
            "sasl.password": self.passwords[user],
        }

    def of(self, user: str, prefix: str = "kcontrol") -> ClusterSettings:
        """Settings of a user, by SCRAM over TLS."""
        return self.settings(self.client(user), prefix=prefix)

    def admin_settings(self, prefix: str = "kcontrol") -> ClusterSettings:
        client = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": ADMIN_PASSWORD,
        }
        return self.settings(client, "ADMIN", prefix)

    def admin_options(self) -> dict[str, str]:
        """For confluent-kafka's clients."""
        return {**self.admin_settings().client, "bootstrap.servers": self.address("ADMIN")}

    # --- what the admin does --------------------------------------------------------------------------------

    def add_users(self, *users: str) -> None:
        """With a password of their own, which has the word `marker` in it; returns when they can log in."""
        admin = _kafka.AdminClient(self.admin_options())
        scram = _kafka.ScramCredentialInfo(_kafka.ScramMechanism.SCRAM_SHA_512, 4096)
        self.passwords |= {user: f"marker-{user}-pw" for user in users}
        wanted = [
            _kafka.UserScramCredentialUpsertion(user, scram, self.passwords[user].encode()) for user in users
        ]
        _results(admin.alter_user_scram_credentials(wanted))
        last = users[-1]
        until(lambda: self._can_log_in(last), f"{last} can log in", TIMEOUT_S)

    def grant(self, rights: dict[str, Sequence[Right]]) -> None:
        """By principal's name: exactly these, nothing else; returns when the broker goes by them."""
        admin = _kafka.AdminClient(self.admin_options())
        bindings = list(
            dict.fromkeys(
                _binding(user, *one, right.prefixed)
                for user, some in rights.items()
                for right in some
                for one in sorted(granted([right]))
            )
        )
        _results(admin.create_acls(bindings))
        until(lambda: set(bindings) <= set(self._acls(admin)), "the ACLs are in force", TIMEOUT_S)

    def revoke(self, user: str, right: Right) -> None:
        """Take rights away again."""
        admin = _kafka.AdminClient(self.admin_options())
        gone = [_binding(user, *one, right.prefixed) for one in granted([right])]
        filters = [
            _kafka.AclBindingFilter(
                each.restype,
                each.name,
                each.resource_pattern_type,
                each.principal,
                each.host,
                each.operation,
                each.permission_type,
            )
            for each in gone
        ]
        _results(admin.delete_acls(filters))
        until(lambda: not set(gone) & set(self._acls(admin)), "the ACLs are gone", TIMEOUT_S)

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        admin = _kafka.AdminClient(self.admin_options())
        _results(admin.create_topics([kept(name, partitions, config)]))

    # --- what the authorizer saw ----------------------------------------------------------------------------

    def used(self, user: str) -> set[Granted]:
        """Every ACL by which the user was allowed what it stands for, so far.

        What an ACL implies besides (Describe) is not counted: that alone would not need it.
        """
        return self.used_by_each().get(user, set())

    def used_by_each(self) -> dict[str, set[Granted]]:
        """`used` of every user, in one reading of what may be long."""
        found: dict[str, set[Granted]] = {}
        for match in _ALLOWED.finditer(self.log()):
            if match["operation"] == match["granted"]:
                used = (match["kind"], match["name"], match["granted"])
                found.setdefault(match["user"], set()).add(used)
        return found

    def log(self) -> str:
        """All that the broker has logged."""
        files = sorted(self.broker.log_file.parent.glob("broker.log*"), reverse=True)
        return "".join(file.read_text("utf-8", "replace") for file in files)

    def _can_log_in(self, user: str) -> bool:
        options = {**self.client(user), "bootstrap.servers": self.address("SECURE"), "log_level": 0}
        try:
            return bool(_kafka.AdminClient(options).list_topics(timeout=5).brokers)
        except KafkaException:
            return False

    def _acls(self, admin: Any) -> list[Any]:
        kinds = _kafka
        every = kinds.AclBindingFilter(
            kinds.ResourceType.ANY,
            None,
            kinds.ResourcePatternType.ANY,
            None,
            None,
            kinds.AclOperation.ANY,
            kinds.AclPermissionType.ANY,
        )
        found: list[Any] = admin.describe_acls(every).result(TIMEOUT_S)
        return found


@contextmanager
def secured_broker(directory: Path) -> Iterator[SecuredBroker]:
    """Start one, with everything of it in `directory`."""
    key, client = rsa_key("broker"), rsa_key("client")
    (directory / "authority.pem").write_text(key.certificate_pem("broker"))
    (directory / "broker.pem").write_text(key.private_pem + (directory / "authority.pem").read_text())
    (directory / "client-certificate.pem").write_text(client.certificate_pem(CERTIFICATE_OWNER))
    (directory / "client-key.pem").write_text(client.private_pem)
    (directory / "keys.json").write_text(rsa_key("tokens").key_set())
    with ExitStack() as stack:
        yield _started(stack, directory)


def _started(stack: ExitStack, directory: Path) -> SecuredBroker:
    """On a busy machine somebody may take one of its ports before it does; then once more with others."""
    for attempt in range(ATTEMPTS):
        ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        keys = f"file://{directory / 'keys.json'}"
        broker = EmbeddedBroker(
            directory / f"broker-{attempt}",
            port=ports["PLAINTEXT"],
            properties=_properties(ports, directory, keys),
            log_levels={"kafka.authorizer.logger": "DEBUG"},
            java_options=[f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={keys}"],
        )
        try:
            return SecuredBroker(stack.enter_context(broker), directory, ports)
        except ClusterError as error:
            if "Address already in use" not in str(error) or attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("not reached")


def _properties(ports: dict[str, int], directory: Path, keys: str) -> dict[str, str]:
    outside = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items() if name != "CONTROLLER")
    itself = f'username="{ADMIN}" password="{ADMIN_PASSWORD}" user_{ADMIN}="{ADMIN_PASSWORD}"'
    admin = f"{_LOGIN}.plain.PlainLoginModule required {itself};"
    protocols = {
        **dict.fromkeys(("ADMIN", "SASL", "CONTROLLER"), "SASL_PLAINTEXT"),
        "SECURE": "SASL_SSL",
        "MUTUAL": "SSL",
    }
    users = f'{_LOGIN}.plain.PlainLoginModule required user_plain="marker-plain-pw";'
    properties = {
        "listeners": f"{outside},CONTROLLER://127.0.0.1:{ports['CONTROLLER']}",
        "advertised.listeners": outside,
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "listener.security.protocol.map": ",".join(f"{name}:{protocols.get(name, name)}" for name in ports),
        "inter.broker.listener.name": "ADMIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.admin.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": admin,
        "listener.name.controller.plain.sasl.jaas.config": admin,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{ADMIN}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "client-certificate.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
    }
    for listener in ("sasl", "secure"):
        prefix = f"listener.name.{listener}"
        properties |= {
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            f"{prefix}.plain.sasl.jaas.config": users,
            f"{prefix}.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule "
            "required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            f"{prefix}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys,
            f"{prefix}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        }
    return properties


def _binding(user: str, kind: str, name: str, operation: str, prefixed: bool) -> Any:
    pattern = _kafka.ResourcePatternType.PREFIXED if prefixed else _kafka.ResourcePatternType.LITERAL
    resource = "TRANSACTIONAL_ID" if kind == "TRANSACTIONAL_ID" else kind
    return _kafka.AclBinding(
        _kafka.ResourceType[resource],
        name,
        pattern,
        f"User:{user}",
        "*",
        _kafka.AclOperation[operation],
        _kafka.AclPermissionType.ALLOW,
    )


def _results(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(TIMEOUT_S)


def eventually(condition: Callable[[], object], what: str) -> None:
    """Wait for something that another process does."""
    until(condition, what, TIMEOUT_S)


def expires_s() -> float:
    """When a token that is made now shall expire."""
    return time.time() + 3_600
