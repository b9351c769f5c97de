"""HTTP/1.1 requests as they are sent."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import unquote_plus


@dataclass(frozen=True)
class Request:
    """One request; `target` is the path and query as they came, header names are as sent."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    version: str = "HTTP/1.1"

    @property
    def text(self) -> str:
        """The target and the body, without percent signs: where a test looks for names."""
        return unquote_plus(f"{self.target} {self.body.decode('latin-1')}")

    @property
    def authorization(self) -> str:
        return self.headers.get("Authorization", "")

    def with_header(self, name: str, value: str) -> Self:
        return replace(self, headers={**self.headers, name: value})

    def with_target(self, target: str) -> Self:
        return replace(self, target=target)

    def with_body(self, body: bytes) -> Self:
        return replace(self.with_header("Content-Length", str(len(body))), body=body)

    def as_http_1_0(self) -> Self:
        """Return the request in the version that knows no chunks and keeps no connection."""
        return replace(self.with_header("Connection", "close"), version="HTTP/1.0")

    def raw(self) -> bytes:
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        head = f"{self.method} {self.target} {self.version}\r\n{lines}\r\n"
        return head.encode("latin-1") + self.body


def head_of(status: str, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode("latin-1")


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Read the next request of a connection; None at its end, also within a request."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *rest = head.rstrip().split("\r\n")
        headers = {
            name: value.strip() for name, _, value in (header.partition(":") for header in rest)
        }
        lengths = (int(headers[name]) for name in headers if name.lower() == "content-length")
        body = await reader.readexactly(next(lengths, 0))
    except asyncio.IncompleteReadError:
        return None
    method, target, _ = line.split(" ")
    return Request(method, target, headers, body)
