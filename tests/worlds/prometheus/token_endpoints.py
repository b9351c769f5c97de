"""Stand-ins of token endpoints."""

import base64
import json
import ssl
from urllib.parse import parse_qs

from tests.worlds.certificates import KeyPair
from tests.worlds.prometheus.faults import Received, ScriptedServer, Step, answer


def token_answer(token: str, seconds: float = 3600, **more: object) -> Step:
    """Answer as RFC 6749 5.1 says."""
    return answer(
        {"access_token": token, "token_type": "Bearer", "expires_in": seconds, **more},
        headers={"Content-Type": "application/json"},
    )


def denied(error: str, description: str = "", status: str = "401 Unauthorized") -> Step:
    """Answer as RFC 6749 5.2 says."""
    return answer(
        {"error": error, "error_description": description},
        status,
        {"Content-Type": "application/json"},
    )


def form(received: Received) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(received.body.decode()).items()}


def basic(received: Received) -> str:
    kind, _, pair = received.headers["Authorization"].partition(" ")
    assert kind == "Basic"
    return base64.b64decode(pair).decode()


def claims(token: str) -> dict[str, object]:
    """Return the payload of a JSON Web Token."""
    payload = token.split(".")[1]
    found: dict[str, object] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return found


def behind_tls(server: ScriptedServer, pair: KeyPair) -> str:
    """Let a server that has not begun speak TLS; return its URL, by the name localhost."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server.url.replace("http://127.0.0.1", "https://localhost")
