"""Whose packages an agent runs that was given the keys which it trusts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from kcontrol.adapters.kafka.logs.cluster_packages import SignedPackage
from kcontrol.apps.agent.packages import HostPackages
from kcontrol.apps.agent.trust import PackageSigner, TrustedKeys
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.package_signatures import (
    PackageSignature,
    PackageSignatures,
    signature_of,
    signature_record,
)
from kcontrol.wire.packages import package_of
from tests.support.signing_keys import make_key

CODE = package_of("flights.py", {"flights.py": b"import rules\n", "rules.py": b""})
OTHER = package_of("flights.py", {"flights.py": b"import os\n"})


class Keys:
    """A private key in a file, and its public half as a line."""

    def __init__(self, file: Path, form: PrivateFormat = PrivateFormat.OpenSSH) -> None:
        self.file, self.line = file, make_key(file, form)

    def sign(self, name: str = CODE.name) -> PackageSignature:
        return PackageSigner(self.file).sign(name)


@pytest.fixture
def ours(tmp_path: Path) -> Keys:
    return Keys(tmp_path / "ours")


@pytest.fixture
def trusted(ours: Keys, tmp_path: Path) -> Path:
    file, other = tmp_path / "trusted", Keys(tmp_path / "another")
    file.write_text(f"# who may submit\n\n{other.line} somebody@else\n{ours.line}\n")
    return file


def host(trusted: Path, folder: Path, *signatures: PackageSignature) -> HostPackages:
    found = HostPackages(ClusterSettings(bootstrap_servers="nobody:1"), folder, TrustedKeys(trusted))
    found._known[CODE.name] = SignedPackage(CODE, signatures)
    return found


@pytest.mark.parametrize("form", [PrivateFormat.OpenSSH, PrivateFormat.PKCS8])
def test_what_one_of_the_trusted_has_signed_is_run(
    trusted: Path, tmp_path: Path, form: PrivateFormat
) -> None:
    mine, theirs = Keys(tmp_path / "mine", form), Keys(tmp_path / "theirs")
    with trusted.open("a") as file:
        file.write(f"{mine.line}\n")
    packages = host(trusted, tmp_path / "packages", theirs.sign(), mine.sign())
    assert packages.package(CODE.name) == CODE
    assert packages.package(CODE.name) == CODE, "and again"


def test_what_nobody_who_is_trusted_has_signed_is_not(ours: Keys, trusted: Path, tmp_path: Path) -> None:
    theirs, good = Keys(tmp_path / "theirs"), ours.sign()
    other = ours.sign(OTHER.name)
    forged = {
        "by nobody": (),
        "by somebody else": (theirs.sign(),),
        "by somebody else, in our name": (replace(theirs.sign(), public_key=good.public_key),),
        "of another package": (other,),
        "of another package, in this one's name": (replace(other, package=CODE.name),),
        "damaged": (
            replace(good, signature=good.signature[:-2] + ("00" if good.signature[-2:] != "00" else "01")),
        ),
        "no signature": (replace(good, signature="so be it"),),
    }
    for what, signatures in forged.items():
        found = host(trusted, tmp_path / "packages", *signatures)
        with pytest.raises(ConfigurationError) as refused:
            found.package(CODE.name)
        assert f"package {CODE.name} is not signed by a key in" in str(refused.value), what
    assert not (tmp_path / "packages").exists(), "nothing of it was unpacked"


def test_whoever_is_taken_out_of_the_file_is_not_trusted_any_more(
    ours: Keys, trusted: Path, tmp_path: Path
) -> None:
    packages = host(trusted, tmp_path / "packages", ours.sign())
    assert packages.package(CODE.name) == CODE
    trusted.write_text(trusted.read_text().replace(ours.line, ""))
    with pytest.raises(ConfigurationError, match="1 have, and none of those"):
        packages.package(CODE.name)
    assert CODE.name not in packages._known, "it is read again, as somebody may sign it"


def test_keys_that_can_not_be_used_are_named(tmp_path: Path) -> None:
    rsa = generate_private_key(65537, 2048)
    (tmp_path / "rsa").write_bytes(rsa.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public = rsa.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    (tmp_path / "text").write_text("so be it")
    (tmp_path / "large").write_bytes(bytes(2 << 20))
    make_key(tmp_path / "locked", PrivateFormat.PKCS8, passphrase=b"secret")
    for name, why in (
        ("not-there", "can't be read"),
        ("text", "is no private key"),
        ("large", "is larger than"),
        ("rsa", "must be Ed25519"),
        ("locked", "one that a passphrase locks"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            PackageSigner(tmp_path / name)
    for text, why in (
        (public, "line 1: .* must be Ed25519"),
        ("# none", "has 0 keys"),
        ("so be it", "line 1: .* no public key"),
    ):
        (tmp_path / "keys").write_text(text)
        with pytest.raises(ConfigurationError, match=why):
            TrustedKeys(tmp_path / "keys")


def test_a_signature_comes_back_from_among_the_records_of_its_package(ours: Keys) -> None:
    signature, other = ours.sign(), ours.sign(OTHER.name)
    key, value = signature_record(signature)
    assert signature_of(value) == signature
    found = PackageSignatures(CODE.name)
    found.see(*signature_record(other))
    found.see(b"what nobody knows", b"")
    found.see(key, value)
    assert found.all() == (signature,)
    found.see(key, signature_record(other)[1])
    assert found.all() == (), "under its key is another one"
    found.see(key, value)
    found.see(key, None)
    assert found.all() == ()
