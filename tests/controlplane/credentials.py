"""The keys, tokens and kubeconfig files of a control plane."""

import base64
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; a reader sees it whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    part.rename(path)


def write_service_account_key(path: Path) -> None:
    """Write a new P-256 private key, with which the apiserver signs service account tokens.

    The DER structure is ECPrivateKey of RFC 5915: version 1, the scalar, and the curve's OID. It
    leaves out the optional public key, which a reader derives from the scalar.
    """
    scalar = (1 + secrets.randbelow(_P256_ORDER - 1)).to_bytes(32, "big")
    der = bytes.fromhex("30310201010420") + scalar + bytes.fromhex("a00a06082a8648ce3d030107")
    body = base64.b64encode(der).decode()
    write_private(path, f"-----BEGIN EC PRIVATE KEY-----\n{body}\n-----END EC PRIVATE KEY-----\n")


def write_token_file(path: Path, users: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Write a token for each user, with the groups of each, and return the tokens by user.

    The apiserver reads the file once, at its start.
    """
    tokens = {user: secrets.token_urlsafe(24) for user in users}
    lines = [f'{tokens[user]},{user},{user},"{",".join(users[user])}"\n' for user in users]
    write_private(path, "".join(lines))
    return tokens


def write_kubeconfig(path: Path, url: str, ca_file: Path, token: str) -> None:
    """Write a kubeconfig with one context, which authenticates with the token."""
    cluster = {"server": url, "certificate-authority": str(ca_file)}
    write_private(path, kubeconfig(cluster, {"token": token}, "test"))


def kubeconfig(
    cluster: Mapping[str, object], user: Mapping[str, object], context: str = "main"
) -> str:
    """Return the text of a kubeconfig with one context, which is the current one."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": context, "cluster": dict(cluster)}],
        "users": [{"name": context, "user": dict(user)}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": context}}],
        "current-context": context,
    }
    return yaml.safe_dump(config, sort_keys=False)


def write_issuer(chain: Path, ca_file: Path) -> None:
    """Copy the last certificate of a serving chain, the issuer, into a file of its own."""
    begin = "-----BEGIN CERTIFICATE-----"
    write_private(ca_file, begin + chain.read_text().rpartition(begin)[2])
