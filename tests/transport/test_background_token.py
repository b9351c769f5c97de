"""A token is fetched and kept valid in the background, and requests do not wait for it."""

import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from autoscaler import clock
from autoscaler.transport import credentials
from autoscaler.transport.credentials import EXPIRED, BackgroundToken, SecretError, Token
from tests.worlds.waiting import let_pass, soon


class Endpoint:
    """Gives tokens 1, 2, ... of the next lifetime in the list; the last one repeats."""

    def __init__(self, *outcomes: float | str | BaseException | None) -> None:
        self._outcomes = outcomes
        self.fetches = 0
        self.closed = threading.Event()
        self.hanging = threading.Event()

    def __call__(self) -> Token[int]:
        outcome = self._outcomes[min(self.fetches, len(self._outcomes) - 1)]
        self.fetches += 1
        if outcome == "hang":
            self.hanging.set()
            self.closed.wait(20)
            outcome = 60.0
        if outcome == "down":
            raise SecretError(outcome)
        if isinstance(outcome, BaseException):
            raise outcome
        return Token(self.fetches, outcome)  # type: ignore[arg-type]  # as a library may


@contextmanager
def token_of(
    *outcomes: float | str | BaseException,
) -> Iterator[tuple[Endpoint, BackgroundToken[int]]]:
    """Keep a token of an endpoint with these outcomes."""
    endpoint = Endpoint(*outcomes)
    with closing(BackgroundToken("token", endpoint)) as token:
        yield endpoint, token


def fault(token: BackgroundToken[int], seconds: float = 0.0) -> str:
    with pytest.raises(SecretError) as caught:
        token.get(seconds)
    return str(caught.value).partition(": ")[2]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_SHORTEST_PAUSE", 0.02)
    monkeypatch.setattr(credentials, "_LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(credentials, "_REFUSED_PAUSE", 0.02)


@pytest.mark.parametrize(
    ("lifetime", "pause"),
    [
        (None, 300),
        (2, 1.6),
        (3600, 3300),
        (0.001, 0.02),
        # What servers say for "never": no pause is longer than Python can wait.
        *((seconds, 86_400) for seconds in (1e10, 1e300, float("inf"))),
    ],
)
def test_a_token_is_replaced_when_a_fifth_or_five_minutes_are_left(
    lifetime: float | None, pause: float
) -> None:
    assert credentials._pause_after(Token(1, lifetime)) == pytest.approx(pause)


@pytest.mark.parametrize("failure", ["down", -1.0])
def test_a_valid_token_outlives_failures_and_the_next_success_replaces_it(
    failure: float | str,
) -> None:
    with token_of(1.5, *[failure] * 3, 60.0) as (endpoint, token):
        token.get(5)
        soon(lambda: endpoint.fetches >= 2)
        assert token.get(0) == 1
        soon(lambda: endpoint.fetches == 5 and token.get(0) == 5)


def test_an_expired_token_is_not_used() -> None:
    with token_of(0.1, "down") as (endpoint, token):
        token.get(5)
        soon(lambda: endpoint.fetches >= 3)
        let_pass(0.1)
        assert fault(token) == "down"


def test_only_the_first_fetch_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "FIRST_SECONDS", 1.0)
    begun = clock.monotonic()
    with token_of("hang") as (endpoint, token):
        assert "none has come" in fault(token, 20)
        assert 1.0 <= clock.monotonic() - begun < 10.0
        begun = clock.monotonic()
        fault(token, 20)
        token.close()
        assert clock.monotonic() - begun < 0.9
        endpoint.closed.set()
    assert endpoint.fetches == 1
    assert "token" not in [thread.name for thread in threading.enumerate()]


def test_a_slow_refresh_delays_no_request() -> None:
    with token_of(60.0, "hang") as (endpoint, token):
        token.get(5)
        token.refused()
        assert endpoint.hanging.wait(5)
        begun = clock.monotonic()
        assert token.get(10) == 1
        assert clock.monotonic() - begun < 2.0
        endpoint.closed.set()


@pytest.mark.parametrize("seconds", [3600.0, float("inf")])
def test_a_refused_token_is_replaced(seconds: float) -> None:
    with token_of(seconds) as (endpoint, token):
        token.get(5)
        for _ in range(50):
            token.refused()
        soon(lambda: token.get(0) == 2)
    assert endpoint.fetches == 2


@pytest.mark.parametrize("failure", ["down", 0.0, -100.0, float("nan")])
def test_pauses_grow_while_fetching_fails(
    failure: float | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_LONGEST_PAUSE", 60.0)
    with token_of(failure) as (endpoint, token):
        reported = fault(token, 5)
        let_pass(0.5)
    assert reported == (failure if isinstance(failure, str) else EXPIRED)
    assert 3 <= endpoint.fetches <= 7


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (LookupError("s3cret"), "LookupError"),
        (SystemExit(), "SystemExit"),
        ("1 h", "TypeError"),
    ],
)
def test_an_error_of_a_library_does_not_end_the_fetching(
    first: BaseException | str, kind: str
) -> None:
    with token_of(first, "hang") as (endpoint, token):
        reported = fault(token, 5)
        assert f"({kind})" in reported
        assert "s3cret" not in reported + repr(token) + repr(Token("s3cret"))
        endpoint.closed.set()
        soon(lambda: token._value == 2)
        assert token.get(0) == 2


@pytest.mark.usefixtures("no_garbage_collection")
@pytest.mark.parametrize("fails", [True, False])
def test_cycles_that_a_fetch_leaves_are_freed(*, fails: bool) -> None:
    """The daemon collects garbage rarely, and the libraries of the vendors leave megabytes."""

    class Client:
        def __init__(self) -> None:
            self.itself = self

    clients: list[weakref.ref[Client]] = []

    def fetch() -> Token[int]:
        client = Client()
        clients.append(weakref.ref(client))
        if fails:
            raise LookupError(client)
        return Token(1, 60.0)

    with closing(BackgroundToken("token", fetch)) as token:
        soon(lambda: len(clients) > 0)
        token.refused()
        soon(lambda: any(client() is None for client in clients))
