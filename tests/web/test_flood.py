"""What clients can make the listener hold in memory: a process of its own is measured."""

import socket
import threading
from contextlib import ExitStack, suppress

from tests.web.served import served
from tests.web.test_listener import HOST

_LITTLE = 24 << 20
_THREE_PAGES = 64 << 20
_ADDRESSES, _EACH = 4, 8


def connect(stack: ExitStack, port: int, address: str) -> socket.socket:
    """Connect from an address of the loopback network."""
    client = socket.create_connection((HOST, port), timeout=20, source_address=(address, 0))
    return stack.enter_context(client)


def test_large_heads_take_no_memory() -> None:
    """Clients that send megabytes of headers, on all connections that they get, change little."""
    head = b"GET /livez HTTP/1.1\r\n" + (b"X: " + b"x" * 65_000 + b"\r\n") * 99 + b"\r\n"

    def flood(client: socket.socket) -> None:
        with suppress(OSError):
            client.sendall(head)

    with served() as process, ExitStack() as stack:
        before = process.peak()
        flooding = [
            threading.Thread(target=flood, args=(connect(stack, process.port, f"127.0.1.{n}"),))
            for n in range(1, _ADDRESSES + 1)
            for _ in range(_EACH)
        ]
        for one in flooding:
            one.start()
        for one in flooding:
            one.join()
        grown = process.peak() - before
        assert grown < _LITTLE, f"{before >> 20} MiB grew by {grown >> 20} MiB"


def test_pages_that_nobody_reads_take_little_memory() -> None:
    """However many clients ask for a page of 10 MiB and do not read it, three of it are held."""
    with served(5_000) as process, ExitStack() as stack:
        before = process.peak()
        clients = [
            connect(stack, process.port, f"127.0.1.{n}")
            for n in range(1, _ADDRESSES + 1)
            for _ in range(_EACH)
        ]
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        for client in clients:
            client.recv(1)
        grown = process.peak() - before
        assert grown < _THREE_PAGES, f"{before >> 20} MiB grew by {grown >> 20} MiB"
