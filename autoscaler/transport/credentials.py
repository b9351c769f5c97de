"""Secrets in files, which may be replaced at any time, and tokens that expire."""

import gc
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from autoscaler import clock
from autoscaler.file_contents import MOST_OF_A_SECRET, read_bytes
from autoscaler.transport.deadline import Deadline, DeadlineExceededError, StoppedError
from autoscaler.transport.retries import GrowingPause

FETCH_SECONDS = 30.0
"""The time limit of one fetch, in seconds."""
FIRST_SECONDS = 5.0
"""How long after the start a request waits for the first fetch; later requests do not wait."""
_SHORTEST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""The pause between two fetches; after failures it grows from the first value to the second."""
_REFUSED_PAUSE = 30.0
"""The least time between a fetch and another one because of a refusal, whose cause may not be the
token."""
_EARLY_SHARE = 0.2
_EARLIEST_SECONDS = 300.0
"""A token is replaced when this part of its life is left, or this many seconds if less."""
_NO_EXPIRY_SECONDS = 300.0
"""How often a token without an expiry is fetched again."""
_LONGEST_WAIT = 86_400.0
"""A token that lasts longer, or forever, is replaced each day; Python cannot wait 292 years."""
EXPIRED = "the received token has expired already: is the clock right?"

T = TypeVar("T")


class SecretError(Exception):
    """No secret or token can be used; the message is a sentence without secrets."""


class SecretFile:
    """A file with a secret, which is read for each use; ``what`` names it in messages."""

    def __init__(self, what: str, path: Path, *, ascii_only: bool = True) -> None:
        self._what = what
        self._path = path
        self._ascii_only = ascii_only
        self._last = ""

    def read(self) -> str:
        """Return the secret; the last one while the file is being replaced. Raises SecretError."""
        name = f"the {self._what} file {self._path}"
        try:
            secret, fault = read_bytes(self._path, MOST_OF_A_SECRET).decode("utf-8").strip(), ""
        except OSError as error:
            secret, fault = "", f"cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            raise SecretError(f"{name} is not text in UTF-8") from None
        if secret:
            check_characters(self._what, name, secret, ascii_only=self._ascii_only)
            self._last = secret
        if not self._last:
            raise SecretError(f"{name} {fault or 'is empty'}")
        return self._last


def check_characters(what: str, name: str, secret: str, *, ascii_only: bool = True) -> None:
    """Raise SecretError unless a secret is one printable line, of ASCII if ``ascii_only``."""
    if secret.isprintable() and (secret.isascii() or not ascii_only):
        return
    right = "printable ASCII" if ascii_only else "printable text"
    raise SecretError(
        f"{name} holds characters that no {what} may have; right is one line of {right}"
    )


def silence(library: str) -> None:
    """Suppress the log of a library: it may contain requests, and text of servers."""
    logging.getLogger(library).setLevel(logging.CRITICAL)


@dataclass(frozen=True, slots=True)
class Token(Generic[T]):
    """A fetched token."""

    value: T = field(repr=False)
    seconds: float | None = None
    """The seconds of its validity from now on; None if unknown."""


class BackgroundToken(Generic[T]):
    """Keeps a token valid: fetches it at once, before it expires, and soon after a refusal.

    ``fetch`` runs on other threads, one at a time, and may raise SecretError. While it fails, a
    token that is still valid stays in use. ``what`` names the token in messages. Thread-safe.
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
        """Return the token, or raise SecretError; waits only for the first fetch."""
        until = min(clock.monotonic() + seconds, self._begun + FIRST_SECONDS)
        with self._changed:
            self._changed.wait_for(
                lambda: self._fetched or self._closed.is_set(),
                timeout=max(0.0, until - clock.monotonic()),
            )
            is_valid = self._expires is None or clock.steady() < self._expires
            if self._value is not None and is_valid:
                return self._value
            fault = self._fault or "none has come yet"
            raise SecretError(f"there is no valid {self._what}: {fault}")

    def refused(self) -> None:
        """Note that a server refused the token: it is fetched again soon."""
        with self._changed:
            self._refused = True
            self._changed.notify_all()

    def close(self) -> None:
        """Fetch no more tokens; a running fetch ends by itself."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()
        self._thread.join()

    def _keep(self) -> None:
        pauses = GrowingPause(_SHORTEST_PAUSE, _LONGEST_PAUSE, jitter=True)
        while not self._closed.is_set():
            token, fault = self._fetched_once()
            # The vendors' libraries leave reference cycles of megabytes, and the daemon rarely
            # collects garbage.
            gc.collect(1)
            with self._changed:
                self._fetched, self._fault = True, fault
                if token is None:
                    pause, refusable = pauses.next(), _LONGEST_PAUSE
                else:
                    pauses.reset()
                    self._value, seconds = token.value, token.seconds
                    self._expires = None if seconds is None else clock.steady() + seconds
                    pause, refusable = _pause_after(token), _REFUSED_PAUSE
                self._refused = False
                self._changed.notify_all()
                self._wait(pause, refusable)

    def _wait(self, pause: float, refusable: float) -> None:
        """Wait for the pause, or after ``refusable`` seconds for a refusal; holds the lock."""
        begun = clock.monotonic()
        while not self._closed.is_set():
            waited = clock.monotonic() - begun
            left = (min(pause, refusable) if self._refused else pause) - waited
            if left <= 0:
                return
            self._changed.wait(left)

    def _fetched_once(self) -> tuple[Token[T] | None, str]:
        try:
            token = self._deadline.run(FETCH_SECONDS, self._fetch)
            is_valid = token.seconds is None or token.seconds > 0  # NaN fails this test too.
        except SecretError as error:
            return None, str(error)
        except DeadlineExceededError:
            return None, f"it was not given within {FETCH_SECONDS:g} s"
        except StoppedError:
            return None, "stopping"
        except BaseException as error:  # noqa: BLE001 - vendors' libraries raise anything
            # Their texts may contain what was sent.
            return None, f"fetching it failed ({type(error).__name__})"
        return (token, "") if is_valid else (None, EXPIRED)


def _pause_after(token: Token[T]) -> float:
    if token.seconds is None:
        return _NO_EXPIRY_SECONDS
    early = min(_EARLIEST_SECONDS, token.seconds * _EARLY_SHARE)
    return min(max(token.seconds - early, _SHORTEST_PAUSE), _LONGEST_WAIT)
