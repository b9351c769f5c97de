"""Looks for requests of `autoscaler release` in the state directory."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from autoscaler.adapters.store import releases

_POLL_SECONDS = 1.0


class ReleaseRequests:
    """Looks for requests on a thread of its own: a disk that hangs holds up nobody else.

    On that thread ``release`` is called with the server of a request, None for all, and ``refused``
    with why a request cannot be read.  Without a directory there are none.
    """

    def __init__(
        self,
        directory: Path | None,
        release: Callable[[str | None], object],
        refused: Callable[[str], None],
    ) -> None:
        self._directory = directory
        self._release = release
        self._refused = refused
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        """Begin to look."""
        if self._directory is not None:
            threading.Thread(
                target=self._look, args=(self._directory,), name="release", daemon=True
            ).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Look no more; a read that hangs is not waited for."""
        self._stop.set()

    def _look(self, directory: Path) -> None:
        while not self._stop.wait(_POLL_SECONDS):
            try:
                request = releases.take(directory)
            except (OSError, ValueError) as error:
                self._refused(str(error))
                continue
            if request is not None:
                self._release(request.server)
