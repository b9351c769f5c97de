"""Credentials that expire, fetched by a thread of their own so that no request waits for them."""

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from autoscaler import clock
from autoscaler.transport.deadline import Deadline, Expired, Stopped
from autoscaler.transport.retries import GrowingPause

FETCH_SECONDS = 30.0
"""How long one fetch may take."""
FIRST_SECONDS = 5.0
"""How long after the start a request waits for the first fetch; later none waits for any."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Between two fetches; after failures the pause grows from one to the other."""
_REFUSED_PAUSE = 30.0
"""At least so long after a fetch a refusal causes another: the token need not be the reason."""
_EARLY_SHARE = 0.2
_EARLIEST_SECONDS = 300.0
"""A token is replaced when this share of its time is left, or so many seconds if that is less."""
_NO_EXPIRY_SECONDS = 300.0
"""How often a token that does not say when it expires is fetched again."""
_LONGEST_WAIT = 86_400.0
"""A token that lasts longer, even for ever, is replaced each day; Python cannot wait 292 years."""
EXPIRED = "the one that came has expired already: is the clock right?"

T = TypeVar("T")


class TokenError(Exception):
    """There is no token that can be used; the message is a sentence without secrets."""


@dataclass(frozen=True, slots=True)
class Token(Generic[T]):
    """What was fetched."""

    value: T = field(repr=False)
    seconds: float | None = None
    """How long it is valid from now on; None if that is not known."""


class BackgroundToken(Generic[T]):
    """Keeps a token valid: fetches it at once, again before it expires, and soon after a refusal.

    ``fetch`` runs on other threads, one at a time; it raises TokenError.  What else it raises is
    told by its type.  A token that has expired when it comes counts as a failure.  While fetching
    fails, a token that is still valid stays in use.  ``what`` the token is of stands in messages.
    Thread-safe.
    """

    def __init__(self, what: str, fetch: Callable[[], Token[T]]) -> None:
        self._what = what
        self._fetch = fetch
        self._begun = clock.monotonic()
        self._changed = threading.Condition()
        self._value: T | None = None
        self._expires: float | None = None
        self._fault = ""
        self._fetched = False
        self._refused = False
        self._closed = threading.Event()
        self._deadline = Deadline(1, self._closed, name="token-fetch")
        self._thread = threading.Thread(target=self._keep, name="token", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"BackgroundToken({self._what!r})"

    def get(self, seconds: float) -> T:
        """Return the valid token.

        Waits only for the outcome of the first fetch: for ``seconds`` at most, and until
        FIRST_SECONDS after the start.  Raises TokenError.
        """
        until = min(clock.monotonic() + seconds, self._begun + FIRST_SECONDS)
        with self._changed:
            while not self._fetched and not self._closed.is_set():
                left = until - clock.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            if self._value is not None and not self._is_expired():
                return self._value
            fault = self._fault or "none has come yet"
            raise TokenError(f"there is no valid {self._what}: {fault}")

    def refused(self) -> None:
        """Note that a server did not accept the token: it is fetched again soon."""
        with self._changed:
            self._refused = True
            self._changed.notify_all()

    def close(self) -> None:
        """Fetch nothing more; a fetch under way is left to end by itself."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        self._thread.join()

    def _is_expired(self) -> bool:
        return self._expires is not None and clock.steady() >= self._expires

    def _keep(self) -> None:
        pauses = GrowingPause(_SHORTEST_PAUSE, _LONGEST_PAUSE, jitter=True)
        while not self._closed.is_set():
            token, fault = self._fetched_once()
            # The vendors' libraries leave cycles of megabytes, and the daemon collects rarely.
            gc.collect(1)
            with self._changed:
                self._fetched, self._fault = True, fault
                if token is None:
                    pause, refusable = pauses.next(), _LONGEST_PAUSE
                else:
                    pauses.reset()
                    self._set(token)
                    pause, refusable = _pause_after(token), _REFUSED_PAUSE
                self._refused = False
                self._changed.notify_all()
                self._wait(pause, refusable)

    def _set(self, token: Token[T]) -> None:
        self._value = token.value
        self._expires = None if token.seconds is None else clock.steady() + token.seconds

    def _wait(self, pause: float, refusable: float) -> None:
        """Wait for the pause, or after ``refusable`` seconds for a refusal; holds the lock."""
        begun = clock.monotonic()
        while not self._closed.is_set():
            waited = clock.monotonic() - begun
            left = (min(pause, refusable) if self._refused else pause) - waited
            if left <= 0:
                return
            self._changed.wait(left)

    def _fetch_valid(self) -> Token[T]:
        token = self._fetch()
        if token.seconds is not None and not token.seconds > 0:  # as NaN is not
            raise TokenError(EXPIRED)
        return token

    def _fetched_once(self) -> tuple[Token[T] | None, str]:
        try:
            return self._deadline.run(FETCH_SECONDS, self._fetch_valid), ""
        except TokenError as error:
            return None, str(error)
        except Expired:
            return None, f"it was not given within {FETCH_SECONDS:g} s"
        except Stopped:
            return None, "stopping"
        except BaseException as error:  # noqa: BLE001 - vendors' libraries raise anything
            # Their texts may hold what was sent.
            return None, f"fetching it failed ({type(error).__name__})"


def _pause_after(token: Token[T]) -> float:
    if token.seconds is None:
        return _NO_EXPIRY_SECONDS
    early = min(_EARLIEST_SECONDS, token.seconds * _EARLY_SHARE)
    return min(max(token.seconds - early, _SHORTEST_PAUSE), _LONGEST_WAIT)
