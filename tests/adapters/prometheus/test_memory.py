"""How much memory the answers of all queries take together."""

import os
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest

from autoscaler import clock
from autoscaler.prometheus import PrometheusReader
from autoscaler.prometheus.answers import answer_of, document_of
from autoscaler.prometheus.reader import MOST_BYTES
from autoscaler.transport.answers import AnswerMemory
from autoscaler.transport.network_errors import Kind
from autoscaler.transport.redaction import Redactor
from autoscaler.transport.retries import FailureKind
from benchmarks.processes import status
from tests.adapters.prometheus.reading import (
    answered,
    failed,
    failure_of,
    network_sentence,
    query,
    reading,
    settings,
)
from tests.narrowing import assert_parts
from tests.worlds.prometheus.faults import ORDERS, Peer, ScriptedServer, answer

MIB = 1 << 20
_POD, _DAEMON = 512 * MIB, 270 * MIB
"""The limit of config/kubernetes, and what 10,000 targets take."""
NO_ROOM = "other large answers"


def main(url: str, queries: int, seconds: float) -> None:
    """Ask at once, keep all answers as a sync does, and print what is resident at most for that.

    In a process of its own: what the server and other tests allocate would count.
    """
    reader = PrometheusReader(settings(url, timeout=seconds), threading.Event())
    before = status(os.getpid())["VmRSS"]
    with ThreadPoolExecutor(queries) as threads:
        until = clock.monotonic() + seconds
        kept = list(threads.map(lambda n: reader.query(f"q{n}", None, until), range(queries)))
    print((status(os.getpid())["VmHWM"] - before) << 10 if kept else "")


def _body(elements: list[str]) -> bytes:
    head = '{"status":"success","data":{"resultType":"vector","result":['
    return f"{head}{','.join(elements)}]}}}}".encode()


def _series(count: int) -> bytes:
    return _body([f'{{"metric":{{"pod":"w{n}"}},"value":[1.5e9,"{n}.25"]}}' for n in range(count)])


@pytest.mark.parametrize(
    "body", [_body(["[]"] * 2 * MIB), _series(100_000)], ids=["empty lists", "series"]
)
def test_sixteen_answers_at_once_fit_into_the_pod(body: bytes) -> None:
    assert 4 * MIB < len(body) < 8 * MIB
    with ScriptedServer(answer(body)) as server:
        command = [sys.executable, "-m", __name__, server.url, "16", "2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    taken = int(done.stdout)
    print(f"{taken >> 20} MiB taken")
    assert taken < _POD - _DAEMON


def test_the_largest_answer_fits_into_the_pod() -> None:
    body = _series(9999)
    tracemalloc.start()
    try:
        answer_of("it", document_of("it", body, Redactor()), Redactor())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (peak / len(body) + 1) * MOST_BYTES < 256 << 20


def test_a_document_that_takes_too_much_is_refused_before_parsing() -> None:
    with ScriptedServer(answer(_body(["[]"] * 100_000))) as server:
        memory = AnswerMemory(MOST_BYTES, parsed=2 * MIB, kept_for_small=MIB)
        failure = failure_of(server.url, memory=memory)
        assert len(server.received) == 1
    assert failure.kind is FailureKind.TOO_LARGE
    assert_parts(failure, "1 MiB")


def test_answers_that_are_kept_leave_less_room() -> None:
    large, small = answer(_series(10_000)), answer()
    with ScriptedServer(large, large, small, large) as server:
        memory = AnswerMemory(MOST_BYTES, parsed=14 * MIB, kept_for_small=MIB)
        with reading(server.url, memory=memory, timeout=2.0) as reader:
            first = answered(query(reader, "large", within=20))
            assert_parts(failed(query(reader, "large", within=2.2)), "parsed", NO_ROOM)
            assert query(reader, "small", within=20) == ORDERS
            del first
            answered(query(reader, "large", within=20))


def test_large_answers_are_received_a_few_at_a_time() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n" + b" " * 300_000

    def all_then_silence(peer: Peer) -> None:
        peer.socket.sendall(head)
        peer.stopping.wait(20)

    with ScriptedServer(all_then_silence) as server:
        memory = AnswerMemory(MOST_BYTES, parsed=200 * MIB, at_once=1)
        with (
            reading(server.url, memory=memory, timeout=0.5) as reader,
            ThreadPoolExecutor(2) as threads,
        ):
            until = clock.monotonic() + 0.6
            messages = threads.map(lambda n: failed(reader.query(f"{n}", None, until)), range(2))
            subject = f"Prometheus at {server.url}"
            slow = network_sentence(Kind.TIMEOUT, subject, within="within 0.5 s")
            (without_room,) = set(messages) - {slow}
    assert_parts(without_room, "256 KiB", NO_ROOM)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
