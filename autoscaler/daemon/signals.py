"""What the operating system asks of the daemon: to stop, or to read its configuration again."""

import signal
import threading
from types import FrameType


class Signals:
    """SIGTERM and SIGINT set ``stop``, SIGHUP asks for a reload.

    Handlers only set flags: they may interrupt the main thread anywhere.
    """

    def __init__(self) -> None:
        self.stop = threading.Event()
        self._received: list[str] = []
        self._reload = False

    def listen(self) -> None:
        """Take signals from now on.  Must be called on the main thread, which alone gets them."""
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
        self.stop.set()

    def _ask_for_reload(self, _number: int, _frame: FrameType | None) -> None:
        self._reload = True
