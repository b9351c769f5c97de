"""The keys, tokens and kubeconfig files of a control plane."""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; a reader sees it whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    part.rename(path)


def write_service_account_key(path: Path) -> None:
    """Write a new private key, with which the apiserver signs service account tokens."""
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.TraditionalOpenSSL
    encoding, encryption = serialization.Encoding.PEM, serialization.NoEncryption()
    write_private(path, key.private_bytes(encoding, form, encryption).decode())


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
