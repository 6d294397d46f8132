"""A broker that lets in who is known: passwords, certificates made when they are needed, and what each user may."""

from __future__ import annotations

import ipaddress
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

USER, PASSWORD = "app", "swordfish-8264"
KEY_PASSWORD = "barracuda-5517"
SECRETS = (PASSWORD, KEY_PASSWORD)

_LOGIN = "org.apache.kafka.common.security"
_PROPERTIES = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",  # whoever comes without a password, over the plain listener
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "listener.name.sasl.plain.sasl.jaas.config": f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
    "listener.name.sasl.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
    "listener.name.sasl.oauthbearer.sasl.jaas.config": (
        f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    ),
    "listener.name.mutual.ssl.client.auth": "required",
    "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*?)(,.*)?$/$1/,DEFAULT",
}
_LISTENERS = {"SASL": "SASL_PLAINTEXT", "TLS": "SSL", "MUTUAL": "SSL", "EXPIRED": "SSL"}


def extras(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """What a broker needs, besides; nothing where certificates cannot be made."""
    try:
        make_certificates(folder)
    except ImportError:
        return {}, {}
    properties = dict(_PROPERTIES)
    stores = {"expired": "expired.pem"}
    for listener in ("tls", "mutual", "expired"):
        properties |= {
            f"listener.name.{listener}.ssl.keystore.type": "PEM",
            f"listener.name.{listener}.ssl.keystore.location": str(folder / stores.get(listener, "broker.pem")),
            f"listener.name.{listener}.ssl.truststore.type": "PEM",
            f"listener.name.{listener}.ssl.truststore.location": str(folder / "ca.pem"),
        }
    return properties, _LISTENERS


def make_certificates(folder: Path) -> None:
    """Two authorities, and what the first one says of the broker, of a user, and of both last year."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    folder.mkdir(parents=True, exist_ok=True)
    now = datetime.now(UTC)

    def name_of(text: str) -> Any:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def make(subject: str, signer: Any = None, is_over: bool = False) -> tuple[Any, Any]:
        key = ec.generate_private_key(ec.SECP256R1())
        start = now - timedelta(days=400 if is_over else 1)
        issuer, signing = (name_of(subject), key) if signer is None else (signer[0].subject, signer[1])
        ip = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name_of(subject))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + timedelta(days=30))
            .add_extension(x509.SubjectAlternativeName([ip]), critical=False)
            .add_extension(x509.BasicConstraints(ca=signer is None, path_length=None), critical=True)
            .sign(signing, hashes.SHA256())
        )
        return certificate, key

    def write(file: str, *parts: Any, password: str = "") -> None:
        locks = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        pem = serialization.Encoding.PEM
        texts = [
            one.public_bytes(pem)
            if isinstance(one, x509.Certificate)
            else one.private_bytes(pem, serialization.PrivateFormat.PKCS8, locks)
            for one in parts
        ]
        (folder / file).write_bytes(b"".join(texts))

    authority = make("Authority")
    write("ca.pem", authority[0])
    write("other-ca.pem", make("Somebody Else")[0])
    for file, is_over in (("broker.pem", False), ("expired.pem", True)):
        certificate, key = make("localhost", authority, is_over)
        write(file, key, certificate, authority[0])
    for file, is_over in ((USER, False), (f"{USER}-expired", True)):
        certificate, key = make(USER, authority, is_over)
        write(f"{file}.crt", certificate)
        write(f"{file}.key", key, password=KEY_PASSWORD)


def grant(admin: Any, *grants: tuple[str, str, str]) -> None:
    """Let the user do something.

    Args:
        grants: each a kind of resource, the beginning of its name, and what the user may.
    """
    from confluent_kafka.admin import (
        AclBinding,
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    bindings = [
        AclBinding(
            ResourceType[kind],
            name,
            ResourcePatternType.PREFIXED,
            f"User:{USER}",
            "*",
            AclOperation[operation],
            AclPermissionType.ALLOW,
        )
        for kind, name, operation in grants
    ]
    for future in admin.create_acls(bindings).values():
        future.result(30)
    of_user = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, f"User:{USER}", None, AclOperation.ANY, AclPermissionType.ANY
    )
    until = time.monotonic() + 30
    while not set(bindings) <= set(admin.describe_acls(of_user).result(30)):
        assert time.monotonic() < until, "the broker did not hear of it"
        time.sleep(0.01)


def make_user(admin: Any) -> None:
    """The user's passwords for SCRAM, one after the other as the broker wants it."""
    from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([change]).values():
            future.result(30)
