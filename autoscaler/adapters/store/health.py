"""Whether state can be kept, told once per change."""

import threading
from collections.abc import Callable


class StoreHealth:
    """Tells ``on_state`` whether state can be kept and why not, and counts what went wrong."""

    def __init__(self, on_state: Callable[[bool, str], None]) -> None:
        self._on_state = on_state
        self._lock = threading.Lock()
        self._told: tuple[bool, str] | None = None
        self._errors = 0

    @property
    def errors(self) -> int:
        """How often something went wrong so far."""
        return self._errors

    def well(self, sentence: str) -> None:
        """Take in that state is kept."""
        with self._lock:
            self._tell(ok=True, sentence=sentence)

    def ill(self, sentence: str, still: Callable[[], bool] = lambda: True) -> None:
        """Take in that something went wrong, if it is ``still`` so when its turn comes."""
        with self._lock:
            if still():
                self._errors += 1
                self._tell(ok=False, sentence=sentence)

    def _tell(self, *, ok: bool, sentence: str) -> None:
        if self._told != (ok, sentence):
            self._told = (ok, sentence)
            self._on_state(ok, sentence)
