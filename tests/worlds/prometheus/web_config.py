"""The web configuration of a Prometheus with TLS and users."""

from pathlib import Path

import yaml

from tests.worlds.certificates import KeyPair

# The name in the server's certificate; its address 127.0.0.1 is not in it.
SERVER_NAME = "prometheus.test"
USER = "autoscaler"
OLD, NEW = "correct-horse", "battery-staple"
# bcrypt, cost 4, made with crypt(3).
HASHES = {
    OLD: "$2b$04$abcdefghijklmnopqrstuuPoaPXzWjiVz4HaNq2LJXksWbO79E.S6",
    NEW: "$2b$04$ABCDEFGHIJKLMNOPQRSTUuubYx4dQlqdHkfqtk/2cH28k0pZ0ZmAi",
}


def write_web_config(
    file: Path,
    *,
    user_password: str | None = None,
    server: KeyPair | None = None,
    clients: KeyPair | None = None,
) -> Path:
    """Write Prometheus' web configuration, which it reads again at every request."""
    config: dict[str, object] = {}
    if user_password is not None:
        config["basic_auth_users"] = {USER: HASHES[user_password]}
    if server is not None:
        tls = {"cert_file": str(server.certificate), "key_file": str(server.key)}
        if clients is not None:
            tls["client_auth_type"] = "RequireAndVerifyClientCert"
            tls["client_ca_file"] = str(clients.certificate)
        config["tls_server_config"] = tls
    temporary = file.with_suffix(".new")
    temporary.write_text(yaml.safe_dump(config))
    return temporary.replace(file)
