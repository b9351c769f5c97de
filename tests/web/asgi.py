"""An application that is asked in this process, without a listener."""

import gzip
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message


class Answer(NamedTuple):
    """An answer; ``sent`` is its body as it was sent."""

    status: int
    headers: Headers
    sent: bytes

    @property
    def text(self) -> str:
        """The body, unpacked."""
        packed = self.headers.get("content-encoding") == "gzip"
        return (gzip.decompress(self.sent) if packed else self.sent).decode()


async def answer_of(
    app: ASGIApp, url: str, headers: Iterable[tuple[str, str]], **more: Any
) -> Answer:
    """Ask; ``more`` are other keys of the scope."""
    parts, sent = urlsplit(url), list[Message]()
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": unquote(parts.path),
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
        "root_path": "",
        "scheme": "http",
        **more,
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *parts_sent = sent
    body = b"".join(part.get("body", b"") for part in parts_sent)
    return Answer(start["status"], Headers(raw=start["headers"]), body)
