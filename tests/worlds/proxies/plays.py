"""The faults that a proxy plays on single requests."""

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from contextlib import suppress

from tests.worlds.proxies.http import Exchange, Fault
from tests.worlds.proxies.wire import Request, head_of

HTML = b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>Who are you?</body></html>"


def answer(
    status: str, body: bytes | Mapping[str, object], headers: Mapping[str, str] | None = None
) -> Fault:
    """Answer instead of the server; other values than bytes are sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/html" if isinstance(body, bytes) else "application/json"

    async def fault(exchange: Exchange) -> None:
        named = {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or {})}
        exchange.client.write(head_of(status, named) + content)
        await exchange.client.drain()

    return fault


async def hang(exchange: Exchange) -> None:
    """Never answer; when the fault is over, hang up."""
    await exchange.over.wait()
    exchange.reset()


def drip(every_seconds: float = 0.05) -> Fault:
    """Send the server's answer byte by byte, each in time for any time-out of a socket."""

    async def fault(exchange: Exchange) -> None:
        head, body = await exchange.fetch()
        for byte in head + b"\r\n\r\n" + body:
            exchange.client.write(bytes([byte]))
            await exchange.client.drain()
            with suppress(TimeoutError):
                await asyncio.wait_for(exchange.over.wait(), every_seconds)
        exchange.client.close()

    return fault


async def never_begin(exchange: Exchange) -> None:
    """Send 100 Continue again and again; when the fault is over, hang up."""
    while not exchange.over.is_set():
        exchange.client.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await exchange.client.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(exchange.over.wait(), 0.01)
    exchange.reset()


def endless(begin: bytes, block: bytes) -> Fault:
    """Send the begin of an answer, and then a block again and again, as fast as it is taken."""

    async def fault(exchange: Exchange) -> None:
        exchange.client.write(begin)
        while not exchange.over.is_set() and not exchange.client.is_closing():
            exchange.client.write(block)
            await exchange.client.drain()
            # Otherwise no other task of this process runs.
            await asyncio.sleep(0.001)
        exchange.reset()

    return fault


def endless_body(begin: bytes, block: bytes) -> Fault:
    """Send a success whose body has no end."""
    head = head_of("200 OK", {"Content-Type": "application/json", "Connection": "close"})
    return endless(head + begin, block)


async def reset(exchange: Exchange) -> None:
    """Send half of the server's answer, then a TCP reset."""
    head, body = await exchange.fetch()
    exchange.client.write(head + b"\r\n\r\n" + body[: len(body) // 2])
    await exchange.client.drain()
    exchange.reset()


async def swallow(exchange: Exchange) -> None:
    """Have the server carry the request out, and reset the connection instead of its answer."""
    await exchange.fetch()
    exchange.reset()


async def break_off(exchange: Exchange) -> None:
    """Send half of the body under the Content-Length of all of it, and close."""
    _, body = await exchange.fetch()
    exchange.client.write(_json_head(len(body)) + body[: len(body) // 2])
    exchange.client.close()


async def truncate(exchange: Exchange) -> None:
    """Send half of the body under a Content-Length that fits it."""
    _, body = await exchange.fetch()
    half = body[: len(body) // 2]
    exchange.client.write(_json_head(len(half)) + half)
    await exchange.client.drain()


def instead(change: Callable[[Request], Request]) -> Fault:
    """Let the server answer another request."""

    async def fault(exchange: Exchange) -> None:
        await exchange.forward(change(exchange.request))

    return fault


def meanwhile(act: Callable[[], object]) -> Fault:
    """Do something, which may take time, before the request reaches the server."""

    async def fault(exchange: Exchange) -> None:
        await asyncio.to_thread(act)
        await exchange.forward(exchange.request)

    return fault


def edited(change: Callable[[dict[str, object]], None]) -> Fault:
    """Change the JSON of the server's answer."""

    async def fault(exchange: Exchange) -> None:
        _, body = await exchange.fetch()
        document = json.loads(body)
        change(document)
        content = json.dumps(document).encode()
        exchange.client.write(_json_head(len(content)) + content)
        await exchange.client.drain()

    return fault


def status_of(code: int, reason: str, message: str) -> dict[str, object]:
    """Return a `metav1.Status` of a failure."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def failure(status: str, reason: str, message: str, **headers: str) -> Fault:
    """Answer with a failure of the API server's own form."""
    body = status_of(int(status.split(maxsplit=1)[0]), reason, message)
    return answer(status, body, {name.replace("_", "-"): headers[name] for name in headers})


def _json_head(length: int) -> bytes:
    named = {"Content-Type": "application/json", "Content-Length": str(length)}
    return head_of("200 OK", named)


def scrambled(choose: random.Random) -> Fault:
    """Send the server's answer with random JSON at one random place of it."""

    async def fault(exchange: Exchange) -> None:
        _, body = await exchange.fetch()
        with suppress(ValueError):
            body = json.dumps(_scrambled(json.loads(body), choose)).encode()
        exchange.client.write(_json_head(len(body)) + body)
        await exchange.client.drain()

    return fault


_JSON: tuple[object, ...] = (
    5,
    -1,
    1e308,
    "",
    "x" * 1000,
    None,
    True,
    [],
    {},
    [5],
    {"a": 5},
    [[{}]],
    "\ud800",
)


def _scrambled(value: object, choose: random.Random) -> object:
    """Return a JSON value with another one in place of one of its parts."""
    if isinstance(value, dict) and value and choose.random() > 0.1:
        key = choose.choice(list(value))
        return value | {key: _scrambled(value[key], choose)}
    if isinstance(value, list) and value and choose.random() > 0.1:
        index = choose.randrange(len(value))
        return [*value[:index], _scrambled(value[index], choose), *value[index + 1 :]]
    return choose.choice(_JSON)
