"""Certificates of servers and clients, made in a few milliseconds each."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class KeyPair:
    """The PEM files of a self-signed certificate and of its key."""

    certificate: Path
    key: Path


def self_signed(
    folder: Path, name: str, group: str = "tests", *, days: int = 2, address: str = ""
) -> KeyPair:
    """Make a certificate, for servers and clients, that is its own authority.

    It is for a DNS name, or instead for an IP address, and expires after ``days``.  To an API
    server that trusts it, the name is a user's, in the group.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    names = {NameOID.ORGANIZATION_NAME: group, NameOID.COMMON_NAME: name}
    subject = x509.Name([x509.NameAttribute(kind, text) for kind, text in names.items()])
    of = x509.IPAddress(ipaddress.ip_address(address)) if address else x509.DNSName(name)
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=9))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([of]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pair = KeyPair(folder / f"{name}.crt", folder / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    pair.key.chmod(0o600)
    return pair


def of_loopback(folder: Path, name: str, *, days: int = 2) -> KeyPair:
    """Make a certificate for 127.0.0.1."""
    return self_signed(folder, name, days=days, address=_LOOPBACK)
