"""A token is fetched and kept valid beside the requests, which never wait for it."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from autoscaler import clock
from autoscaler.transport import credentials
from autoscaler.transport.credentials import (
    BackgroundToken,
    SecretError,
    SecretFile,
    Token,
    TokenError,
)


class Endpoint:
    """Gives tokens 1, 2, ... of the next lifetime in the list; the last goes on."""

    def __init__(self, *outcomes: float | str | None) -> None:
        self._outcomes = outcomes
        self.asked = 0
        self.closed = threading.Event()
        self.hanging = threading.Event()

    def __call__(self) -> Token[int]:
        """Give a token of so many seconds, fail with a text, or hang for the text "hang"."""
        outcome = self._outcomes[min(self.asked, len(self._outcomes) - 1)]
        self.asked += 1
        if outcome == "hang":
            self.hanging.set()
            self.closed.wait(20)
        if isinstance(outcome, str):
            raise TokenError(outcome)
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


def soon(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; fails after 10 s."""
    until = clock.monotonic() + 10
    pause = threading.Event()
    while not is_so():
        assert clock.monotonic() < until
        pause.wait(0.005)


def fault(token: BackgroundToken[int]) -> str:
    """Return why there is no token; fails if there is one."""
    with pytest.raises(TokenError) as caught:
        token.get(0)
    return str(caught.value)


def is_valid(token: BackgroundToken[int]) -> bool:
    """Return whether there is a token."""
    try:
        token.get(0)
    except TokenError:
        return False
    return True


def test_it_is_replaced_before_it_expires() -> None:
    """With a fifth of its time left, so that there is a valid one at any time."""
    with closing(BackgroundToken("token", Endpoint(2.0, 60.0))) as token:
        begun = clock.monotonic()
        assert token.get(5) == 1
        soon(lambda: token.get(0) == 2)
        assert 1.4 < clock.monotonic() - begun < 2.0


def test_a_valid_one_outlives_failures_and_the_next_success_replaces_it() -> None:
    """While the endpoint fails the old one is used; once it works again, the new one."""
    with kept(0.25, *["down"] * 3, 60.0) as (endpoint, token):
        token.get(5)
        soon(lambda: endpoint.asked >= 2)
        assert token.get(0) == 1
        soon(lambda: endpoint.asked == 5 and token.get(0) == 5)


def test_an_expired_one_is_not_used() -> None:
    """What fails says why, at once."""
    endpoint = Endpoint(0.1, "the endpoint is down")
    with closing(BackgroundToken("access token", endpoint)) as token:
        token.get(5)
        soon(lambda: endpoint.asked >= 3)
        threading.Event().wait(0.1)
        said = "there is no valid access token: the endpoint is down"
        assert fault(token) == said


def test_pauses_grow_while_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that is down is not asked without end."""
    monkeypatch.setattr(credentials, "_LONGEST_PAUSE", 60.0)
    endpoint = Endpoint("down")
    with closing(BackgroundToken("token", endpoint)):
        threading.Event().wait(0.5)
    assert 3 <= endpoint.asked <= 7


def test_only_the_first_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And that not for long: a slow endpoint costs no later query a moment."""
    monkeypatch.setattr(credentials, "FIRST_SECONDS", 1.0)
    endpoint = Endpoint("hang")
    begun = clock.monotonic()
    with closing(BackgroundToken("token", endpoint)) as token:
        with pytest.raises(TokenError, match="there is no valid token: none has come yet"):
            token.get(20)
        assert 1.0 <= clock.monotonic() - begun < 10.0
        begun = clock.monotonic()
        with pytest.raises(TokenError):
            token.get(20)
        assert clock.monotonic() - begun < 0.9
        endpoint.closed.set()


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


def test_closing_waits_for_no_endpoint() -> None:
    """It is left to end by itself, and its thread asks no more."""
    endpoint = Endpoint("hang")
    token = BackgroundToken("token", endpoint)
    assert endpoint.hanging.wait(5)
    begun = clock.monotonic()
    token.close()
    assert clock.monotonic() - begun < 1.0
    endpoint.closed.set()
    assert endpoint.asked == 1
    assert "token" not in [one.name for one in threading.enumerate()]


def test_what_a_library_raises_is_told_by_its_type() -> None:
    """Its text may hold what was sent."""

    def fetch() -> Token[int]:
        raise LookupError("s3cret")

    with closing(BackgroundToken("token", fetch)) as token:
        soon(lambda: "none has come yet" not in fault(token))
        assert fault(token) == "there is no valid token: fetching it failed (LookupError)"
        assert "s3cret" not in repr(token) + repr(Token("s3cret"))


@pytest.mark.parametrize("seconds", [1e10, 1e300, float("inf")])
def test_a_token_for_ever_is_kept_and_replaced_each_day(seconds: float) -> None:
    """What servers say for "never": no pause is longer than Python can wait."""
    with kept(seconds) as (_, token):
        assert token.get(5) == 1
        token.refused()
        soon(lambda: token.get(0) == 2)
    assert credentials._pause_after(Token(1, seconds)) == 86_400


@pytest.mark.parametrize("seconds", [0.0, -100.0, float("nan")])
def test_one_that_has_expired_when_it_comes_is_a_failure(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock may be wrong.  It is told, and fetched again after pauses that grow."""
    monkeypatch.setattr(credentials, "_LONGEST_PAUSE", 60.0)
    with kept(seconds) as (endpoint, token):
        with pytest.raises(TokenError) as caught:
            token.get(5)
        threading.Event().wait(0.3)
    expired = "the one that came has expired already: is the clock right?"
    assert str(caught.value) == f"there is no valid token: {expired}"
    assert 2 <= endpoint.asked <= 6


def test_an_expired_one_does_not_replace_a_valid_one() -> None:
    """Which stays in use, as with any failure."""
    with kept(60.0, -1.0) as (endpoint, token):
        token.get(5)
        token.refused()
        soon(lambda: endpoint.asked >= 3)
        assert token.get(0) == 1


def test_nothing_that_a_library_does_ends_the_fetching() -> None:
    """Neither what ends a thread, nor a token that is none."""
    asked: list[int] = []

    def fetch() -> Token[int]:
        asked.append(1)
        if len(asked) == 1:
            raise SystemExit
        return Token(1, "1 h" if len(asked) == 2 else 60.0)  # type: ignore[arg-type]

    with closing(BackgroundToken("token", fetch)) as token:
        with pytest.raises(TokenError, match=r"fetching it failed \(SystemExit\)"):
            token.get(5)
        soon(lambda: "(TypeError)" in fault(token))
        soon(lambda: is_valid(token))
        assert (len(asked), token.get(0)) == (3, 1)


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
    """While the file is gone or empty; the next secret is used as soon as it is there."""
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
