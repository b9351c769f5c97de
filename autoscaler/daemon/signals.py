"""What the operating system asks of the daemon: to stop, or to read its configuration again."""

import signal
import threading
from queue import SimpleQueue
from types import FrameType


class Signals:
    """SIGTERM and SIGINT set ``stop``, SIGHUP asks for a reload.

    Handlers may interrupt the main thread anywhere, also where it holds the lock of ``stop``:
    they only set flags, and put a word into a queue, which may be done from there.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._ends: SimpleQueue[None] = SimpleQueue()
        self._received: list[str] = []
        self._reload = False

    def listen(self) -> None:
        """Take signals from now on.  Must be called on the main thread, which alone gets them."""
        threading.Thread(target=self._await_end, name="signals", daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        signal.signal(signal.SIGHUP, self._ask_for_reload)

    @property
    def received(self) -> str | None:
        """The name of the signal that said stop."""
        return self._received[0] if self._received else None

    def take_reload(self) -> bool:
        """Tell whether a reload was asked for since the last call; however often, it is one."""
        asked, self._reload = self._reload, False
        return asked

    def _end(self, number: int, _frame: FrameType | None) -> None:
        self._received.append(signal.Signals(number).name)
        self._ends.put(None)

    def _await_end(self) -> None:
        self._ends.get()
        self.stop.set()

    def _ask_for_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reload = True
