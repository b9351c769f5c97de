"""A hostile API server or proxy takes neither time nor memory nor secrets.

The answers are raw bytes: no library sends such ones.
"""

import base64
import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import pytest

from autoscaler import clock
from autoscaler.core.observation import Scale
from autoscaler.core.writes import WriteFailure
from autoscaler.kubernetes import Api, Failure, Scales, list_pods
from autoscaler.kubernetes.api import MOST_BYTES
from autoscaler.kubernetes.watch_requests import WatchStream
from autoscaler.transport.answers import AnswerMemory, LineTooLong
from autoscaler.transport.retries import FailureKind
from tests.narrowing import assert_parts, instance
from tests.worlds.cluster.connecting import Starter
from tests.worlds.cluster.faults import within
from tests.worlds.cluster.manifests import WEB
from tests.worlds.memory import T0, Memory, external
from tests.worlds.memory import answer as load
from tests.worlds.prometheus import faults
from tests.worlds.prometheus.faults import Peer, ScriptedServer, Step, answer
from tests.worlds.waiting import wait_until

TOKEN = "eyJhbGciOi.a/b+c=d-e_f.Zm9vYmFy"  # noqa: S105 - made up
MIB = 1 << 20
Connect = Callable[..., tuple[ScriptedServer, Api]]


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Connect]:
    user = {"token": TOKEN}
    with Starter(tmp_path) as starter:
        yield lambda *steps, **options: starter.start(ScriptedServer(*steps), user, **options)


def _get(api: Api) -> Failure:
    return instance(Failure, api.once("GET", "/version", clock.monotonic() + 20))


def _status(message: str) -> dict[str, object]:
    return {"kind": "Status", "message": message, "reason": "Forbidden", "code": 403}


def _request_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "kubernetes-request"]


# -- secrets -------------------------------------------------------------------------------


def _header(token: str) -> str:
    return base64.b64encode(f"authorization: Bearer {token}".encode()).decode()


@pytest.mark.parametrize("form", [str, quote, _header])
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("403 Forbidden", "application/json"),
        ("401 Unauthorized", "application/json"),
        ("500 Internal Server Error", "text/plain"),
        ("502 Bad Gateway", "text/html"),
        ("200 OK", "text/plain"),
    ],
)
def test_a_token_that_the_server_repeats_is_not_in_the_failure(
    hostile: Connect, status: str, kind: str, form: Callable[[str], str]
) -> None:
    sent = form(TOKEN)

    def echo(peer: Peer) -> None:
        assert peer.received.headers["Authorization"] == f"Bearer {TOKEN}"
        text = "x" * 180 + f" {sent}"
        body = _status(text) if kind == "application/json" else text
        answer(body, status, {"Content-Type": f"{kind}", "X": sent})(peer)

    _, api = hostile(echo)
    failure = instance(Failure, api.once("PUT", "/x", clock.monotonic() + 20, body={"a": 1}))
    assert sent[-16:-8] not in failure.message
    assert TOKEN[:8] not in failure.message


@pytest.mark.parametrize(
    "step",
    [
        faults.speak(f"Bearer {TOKEN}\r\n\r\n".encode()),
        answer("x", "502 Bad Gateway", {"Content-Type": TOKEN}),
        answer("x", headers={"Content-Type": TOKEN}),
        answer("x", headers={"Content-Encoding": TOKEN}),
        answer("x", f"599 {TOKEN}"),
        answer({"metadata": {"resourceVersion": TOKEN}, "items": [TOKEN]}),
    ],
)
def test_a_token_in_any_other_part_of_an_answer_is_not_in_the_outcome(
    hostile: Connect, step: Step
) -> None:
    _, api = hostile(step)
    outcomes = (
        api.once("PUT", "/x", clock.monotonic() + 20, body={"a": 1}),
        Scales(api).read("shop", WEB, clock.monotonic() + 0.2),
        list_pods(api, "shop", "app=web", clock.monotonic() + 0.2),
    )
    assert TOKEN[:8] not in str(outcomes)


def test_words_of_the_server_are_one_short_line(hostile: Connect) -> None:
    words = "no\x1b[31m\r\n\u202eforged\u2028line " + "and so on " * 50_000
    _, api = hostile(answer(_status(words), "403 Forbidden"))
    message = _get(api).message
    assert message.startswith(r"no\x1b[31m \u202eforged\u2028line and so on")
    assert message.isprintable()
    assert len(message) <= 1000


# -- time ----------------------------------------------------------------------------------


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CONTINUE_FOR_EVER = faults.endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n")
ENDLESS = [
    pytest.param(CONTINUE_FOR_EVER, id="100-continue"),
    pytest.param(faults.drip("head", 0.05), id="head"),
    pytest.param(faults.drip("body", 0.05), id="body"),
    pytest.param(faults.endless(CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: y\r\n"), id="trailers"),
]


@pytest.mark.parametrize("step", ENDLESS)
def test_an_endless_answer_is_given_up_in_time(hostile: Connect, step: Step) -> None:
    server, api = hostile(step, timeout=0.3)
    with within(5.0):
        read = Scale(1, 1, "app=web", "7")
        outcome = Scales(api).write("shop", WEB, read, 4, clock.monotonic() + 1.0)
    failed = instance(WriteFailure, outcome)
    assert failed.unknown
    assert_parts(failed, server.url, "in time")
    wait_until("threads ended", lambda: not _request_threads())


def test_a_sync_and_a_stop_end_in_time(hostile: Connect) -> None:
    stop = threading.Event()
    _, api = hostile(CONTINUE_FOR_EVER, timeout=0.5, stop=stop)
    memory = Memory(
        answers={"queue": load(200.0)}, scales={"shop/worker": Scale(1, 1, "app=w", "7")}
    )
    memory.write_scale = Scales(api).write  # type: ignore[method-assign]
    with within(15.0), memory.syncer(stop) as syncer:
        for number in range(2):
            syncer.sync([external("shop", "worker")], T0 + 15 * number, 1.0, steady=15.0 * number)
            assert isinstance(memory.result("shop/worker").write, WriteFailure)
        stopping = threading.Timer(0.1, stop.set)
        stopping.start()
        syncer.sync([external("shop", "worker")], T0 + 30, 60.0, steady=30.0)
    stopping.join()


def test_a_write_that_was_given_up_is_not_sent_later(hostile: Connect) -> None:
    server, api = hostile(answer({}), timeout=0.2)

    def slow() -> bool:
        time.sleep(1.0)
        return True

    failure = api.once("PUT", "/x", clock.monotonic() + 5, body={"a": 1}, may_send=slow)
    assert isinstance(failure, Failure)
    assert failure.uncertain
    wait_until("thread ended", lambda: not _request_threads())
    assert [request.body for request in server.received if request.body] == []


@pytest.mark.parametrize("step", ENDLESS[:2])
def test_a_watch_begins_in_time(hostile: Connect, step: Step) -> None:
    _, api = hostile(step)
    with within(5.0):
        assert isinstance(api.stream("/x", {}, 0.3), Failure)
    wait_until("thread ended", lambda: not _request_threads())


def _stream(api: Api, seconds: float) -> WatchStream:
    response = api.stream("/x", {}, 5.0)
    assert not isinstance(response, Failure), response
    return WatchStream(response, clock.monotonic() + seconds)


def _chunked(*parts: bytes) -> Step:
    def step(peer: Peer) -> None:
        with suppress(OSError):
            for part in (CHUNKED, *parts):
                peer.socket.sendall(part)
        peer.stopping.wait(20)

    return step


LARGE = MOST_BYTES + MIB


@pytest.mark.parametrize(
    ("step", "seconds", "error", "words"),
    [
        # The length of a chunk that arrives byte by byte does not extend the time.
        (
            faults.endless(CHUNKED + b"3\r\n{}\n\r\n5;", b"x", 0.02),
            *(0.5, Exception, "in time"),
        ),
        (
            _chunked(b"3\r\n{}\n\r\n", f"{LARGE:x}\r\n".encode(), b" " * LARGE),
            *(60.0, LineTooLong, "16 MiB"),
        ),
    ],
    ids=["drips", "large"],
)
def test_a_line_of_a_watch_has_bounds(
    hostile: Connect, step: Step, seconds: float, error: type[Exception], words: str
) -> None:
    _, api = hostile(step)
    stream = _stream(api, seconds)
    lines: list[bytes] = []
    with within(10.0), pytest.raises(error, match=words):
        lines.extend(stream)
    assert lines == [b"{}"]
    stream.close()


# -- memory --------------------------------------------------------------------------------


GZIPPED = answer(gzip.compress(b" " * MIB), headers={"Content-Encoding": "gzip"})


@pytest.mark.parametrize(
    ("step", "part", "status", "kind"),
    [
        (answer(b" " * (17 * MIB)), "16 MiB", 200, FailureKind.TOO_LARGE),
        (answer(b" " * (17 * MIB), "403 Forbidden"), "16 MiB", 403, FailureKind.OTHER),
        (GZIPPED, "gzip", 200, FailureKind.OTHER),
        # It would take fifty times as much.
        (answer(b"[" + b"[]," * MIB + b"[]]"), "128 MiB", 200, FailureKind.TOO_LARGE),
        # 250 TiB that never come.
        (_chunked(b"fffffffffff\r\n{}"), "in time", 0, FailureKind.OTHER),
    ],
    ids=["large", "large-refusal", "compressed", "junk", "chunk"],
)
def test_an_answer_that_would_take_too_much_is_given_up(
    hostile: Connect, step: Step, part: str, status: int, kind: FailureKind
) -> None:
    server, api = hostile(step, timeout=1.0)
    failure = _get(api)
    assert (failure.status, failure.kind) == (status, kind)
    assert_parts(failure, server.url, part)
    assert server.received[0].headers.get("Accept-Encoding", "identity") == "identity"


def test_a_watch_is_not_decompressed(hostile: Connect) -> None:
    """A kilobyte may become a megabyte, and five of them gigabytes."""
    server, api = hostile(GZIPPED)
    assert_parts(instance(Failure, api.stream("/x", {}, 5.0)), server.url, "gzip")


def test_answers_together_have_a_bound(hostile: Connect) -> None:
    large: dict[str, object] = {"items": [[]] * 100_000}
    server, api = hostile(answer(large), timeout=1.0)
    api.memory = AnswerMemory(MIB, parsed=20 * MIB, kept_for_small=MIB)
    first = api.once("GET", "/x", clock.monotonic() + 20)
    assert first == large
    assert_parts(_get(api), server.url, "memory")
    del first
    assert api.once("GET", "/x", clock.monotonic() + 20) == large


def test_a_page_that_is_too_large_is_asked_for_in_parts(hostile: Connect) -> None:
    """Large pods, which anybody may create, make the list longer, not impossible."""

    def page(peer: Peer) -> None:
        found = re.search("limit=([0-9]+)", peer.received.target)
        limit = int(found[1]) if found else 500
        pod = {"metadata": {"name": "a" + peer.received.target[-1]}, "spec": {}, "status": {}}
        more = "" if "continue" in peer.received.target else "2"
        listed = {"metadata": {"resourceVersion": "5", "continue": more}, "items": [pod]}
        answer(b" " * (17 * MIB) if limit > 200 else listed)(peer)

    server, api = hostile(page)
    pods = instance(tuple, list_pods(api, "shop", "app=web", clock.monotonic() + 20))
    assert len(pods) == 2
    limits = [re.findall("limit=([0-9]+)", request.target) for request in server.received]
    assert limits == [["500"], ["125"], ["125"]]


def test_lines_that_come_in_pieces_are_whole(hostile: Connect) -> None:
    text = b"".join(json.dumps({"n": number}).encode() + b"\n" for number in range(50))
    pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
    frames = [f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces]
    _, api = hostile(_chunked(*frames, b"0\r\n\r\n"))
    stream = _stream(api, 20.0)
    assert [json.loads(line)["n"] for line in stream] == list(range(50))
    stream.close()
