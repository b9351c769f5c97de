"""A token is fetched and kept valid beside the requests, which never wait for it."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.transport import credentials
from autoscaler.transport.credentials import (
    BackgroundToken,
    SecretError,
    SecretFile,
    Token,
)
from tests.worlds.waiting import let_pass, soon


class Endpoint:
    """Gives tokens 1, 2, ... of the next lifetime in the list; the last goes on."""

    def __init__(self, *outcomes: float | str | None) -> None:
        self._outcomes = outcomes
        self.asked = 0
        self.closed = threading.Event()
        self.hanging = threading.Event()

    def __call__(self) -> Token[int]:
        outcome = self._outcomes[min(self.asked, len(self._outcomes) - 1)]
        self.asked += 1
        if outcome == "hang":
            self.hanging.set()
            self.closed.wait(20)
        if isinstance(outcome, str):
            raise SecretError(outcome)
        return Token(self.asked, outcome)


@contextmanager
def kept(*outcomes: float | str | None) -> Iterator[tuple[Endpoint, BackgroundToken[int]]]:
    """Keep a token of an endpoint with these outcomes."""
    endpoint = Endpoint(*outcomes)
    with closing(BackgroundToken("token", endpoint)) as token:
        yield endpoint, token


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "_SHORTEST_PAUSE", 0.02)
    monkeypatch.setattr(credentials, "_LONGEST_PAUSE", 0.05)
    monkeypatch.setattr(credentials, "_REFUSED_PAUSE", 0.02)


def test_it_is_replaced_before_it_expires() -> None:
    with closing(BackgroundToken("token", Endpoint(2.0, 60.0))) as token:
        begun = clock.monotonic()
        assert token.get(5) == 1
        soon(lambda: token.get(0) == 2)
        assert 1.4 < clock.monotonic() - begun < 2.0


@pytest.mark.parametrize("failure", ["down", -1.0])
def test_a_valid_one_outlives_failures_and_the_next_success_replaces_it(
    failure: float | str,
) -> None:
    with kept(1.5, *[failure] * 3, 60.0) as (endpoint, token):
        token.get(5)
        soon(lambda: endpoint.asked >= 2)
        assert token.get(0) == 1
        soon(lambda: endpoint.asked == 5 and token.get(0) == 5)


def test_an_expired_one_is_not_used() -> None:
    endpoint = Endpoint(0.1, "the endpoint is down")
    with closing(BackgroundToken("access token", endpoint)) as token:
        token.get(5)
        soon(lambda: endpoint.asked >= 3)
        let_pass(0.1)
        with pytest.raises(SecretError) as caught:
            token.get(0)
        assert str(caught.value) == "there is no valid access token: the endpoint is down"


def test_only_the_first_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And that not for long: a slow endpoint costs no later query a moment, nor the end."""
    monkeypatch.setattr(credentials, "FIRST_SECONDS", 1.0)
    begun = clock.monotonic()
    with kept("hang") as (endpoint, token):
        with pytest.raises(SecretError, match="there is no valid token: none has come yet"):
            token.get(20)
        assert 1.0 <= clock.monotonic() - begun < 10.0
        begun = clock.monotonic()
        with pytest.raises(SecretError):
            token.get(20)
        token.close()
        assert clock.monotonic() - begun < 0.9
        endpoint.closed.set()
    assert endpoint.asked == 1
    assert "token" not in [thread.name for thread in threading.enumerate()]


def test_a_slow_refresh_delays_nobody() -> None:
    """The token that is still valid is given meanwhile."""
    with kept(60.0, "hang") as (endpoint, token):
        token.get(5)
        token.refused()
        assert endpoint.hanging.wait(5)
        begun = clock.monotonic()
        assert token.get(10) == 1
        assert clock.monotonic() - begun < 2.0
        endpoint.closed.set()


def test_a_refusal_fetches_another() -> None:
    """Long before the first one expires, and not for each of the refused requests."""
    with kept(3600.0) as (endpoint, token):
        token.get(5)
        for _ in range(50):
            token.refused()
        soon(lambda: token.get(0) == 2)
    assert endpoint.asked == 2


@pytest.mark.parametrize("seconds", [1e10, 1e300, float("inf")])
def test_a_token_for_ever_is_kept_and_replaced_each_day(seconds: float) -> None:
    """What servers say for "never": no pause is longer than Python can wait."""
    with kept(seconds) as (_, token):
        assert token.get(5) == 1
        token.refused()
        soon(lambda: token.get(0) == 2)
    assert credentials._pause_after(Token(1, seconds)) == 86_400


@pytest.mark.parametrize("failure", ["down", 0.0, -100.0, float("nan")])
def test_pauses_grow_while_it_fails(failure: float | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not asked without end; one that has expired when it comes is a failure, and told."""
    monkeypatch.setattr(credentials, "_LONGEST_PAUSE", 60.0)
    with kept(failure) as (endpoint, token):
        with pytest.raises(SecretError) as caught:
            token.get(5)
        let_pass(0.5)
    expired = "the received token has expired already: is the clock right?"
    why = failure if isinstance(failure, str) else expired
    assert str(caught.value) == f"there is no valid token: {why}"
    assert 3 <= endpoint.asked <= 7


@pytest.mark.parametrize(
    ("first", "kind"),
    [
        (LookupError("s3cret"), "LookupError"),
        (SystemExit(), "SystemExit"),
        (Token(1, "1 h"), "TypeError"),  # type: ignore[arg-type]
    ],
)
def test_nothing_that_a_library_does_ends_the_fetching(
    first: BaseException | Token[int], kind: str
) -> None:
    """Neither what ends a thread, nor a token that is none; no text is told, as it may be sent."""
    asked, go_on = [], threading.Event()

    def fetch() -> Token[int]:
        asked.append(1)
        if len(asked) > 1:
            go_on.wait(10)
            return Token(2, 60.0)
        if isinstance(first, BaseException):
            raise first
        return first

    with closing(BackgroundToken("token", fetch)) as token:
        with pytest.raises(SecretError) as caught:
            token.get(5)
        assert str(caught.value) == f"there is no valid token: fetching it failed ({kind})"
        assert "s3cret" not in repr(token) + repr(Token("s3cret"))
        go_on.set()

        def replaced() -> bool:
            with suppress(SecretError):
                return token.get(0) == 2
            return False

        soon(replaced)


@pytest.mark.parametrize("fails", [True, False])
def test_what_a_fetch_leaves_in_cycles_is_freed(*, fails: bool) -> None:
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

    gc.disable()
    try:
        with closing(BackgroundToken("token", fetch)) as token:
            soon(lambda: len(clients) > 0)
            token.refused()
            soon(lambda: any(client() is None for client in clients))
    finally:
        gc.enable()


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("\n")])
def test_in_the_middle_of_a_rotation_the_last_secret_is_used(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    path = tmp_path / "token"
    path.write_text(" one\n")
    file = SecretFile("token", path)
    assert file.read() == "one"
    spoil(path)
    assert file.read() == "one"
    path.write_text("two")
    assert file.read() == "two"


@pytest.mark.parametrize("ascii_only", [False, True])
def test_what_no_header_can_carry_is_refused_without_quoting_it(
    tmp_path: Path, *, ascii_only: bool
) -> None:
    """Only a password may have letters beyond ASCII, and nothing may have several lines."""
    path = tmp_path / "secret"
    file = SecretFile("token", path, ascii_only=ascii_only)
    path.write_text("two\nl1nes")
    with pytest.raises(SecretError, match="holds characters that no token may have") as caught:
        file.read()
    assert "l1nes" not in str(caught.value)
    path.write_text("\u00fcber")
    if ascii_only:
        with pytest.raises(SecretError, match="right is one line of printable ASCII"):
            file.read()
    else:
        assert file.read() == "\u00fcber"
