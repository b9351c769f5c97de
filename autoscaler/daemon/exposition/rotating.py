"""What is made of files that may be replaced at any time."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from autoscaler.config.web_files import WebFileError

T = TypeVar("T")

_Stamp = tuple[int, ...]


class Rotating(Generic[T]):
    """Makes a value again when its files change; the last good one stays while they are broken.

    ``told`` is called with False and a sentence once they are, and with True when they are well
    again.  The first value is made at once: raises WebFileError and OSError.  Any thread may call
    any method.
    """

    def __init__(
        self,
        name: str,
        files: Sequence[Path],
        make: Callable[[], T],
        told: Callable[[bool, str], None],
    ) -> None:
        self._name = name
        self._files = files
        self._make = make
        self._told = told
        self._lock = threading.Lock()
        self._seen = self._stamps()
        self._value = make()
        self._fault = ""

    def current(self) -> T:
        """Return the value of the files as they are, or as they last were well."""
        with self._lock:
            stamps = self._stamps()
            if stamps != self._seen:
                self._seen = stamps
                self._renew()
            return self._value

    def _renew(self) -> None:
        try:
            self._value = self._make()
        except WebFileError as error:
            fault = str(error)
        except OSError as error:
            fault = f"{error.filename} cannot be read: {error.strerror}"
        else:
            if self._fault:
                self._told(True, f"{self._name} can be used again")  # noqa: FBT003 - an observer's shape
            self._fault = ""
            return
        if fault != self._fault:
            sentence = f"{self._name}: {fault}; what was read before it stays in use"
            self._told(False, sentence)  # noqa: FBT003 - as above
        self._fault = fault

    def _stamps(self) -> list[_Stamp | None]:
        return [_stamp(path) for path in self._files]


def _stamp(path: Path) -> _Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mtime_ns, status.st_size
