"""The service manager's side of sd_notify: a socket that gathers what a daemon says."""

import socket
from collections.abc import Mapping

from tests.worlds.waiting import Background, wait_until

Message = dict[str, str]


class NotifySocket(Background):
    """A datagram socket, by a path or by an abstract name that begins with "@"."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.messages: list[Message] = []
        self._name = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + name[1:] if name.startswith("@") else name)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variable by which a daemon finds the socket."""
        return {"NOTIFY_SOCKET": self._name}

    def count(self, key: str) -> int:
        """Return how many messages so far assign the key."""
        return sum(key in message for message in self.messages)

    def last(self, key: str) -> str:
        """Return the last value of a key; empty without one."""
        return next((message[key] for message in self.messages[::-1] if key in message), "")

    def wait_for(self, key: str, count: int = 1, timeout: float = 60.0) -> Message:
        """Wait for the n-th message that assigns a key."""

        def matching() -> list[Message]:
            return [message for message in self.messages if key in message][count - 1 : count]

        return wait_until(f"message {count} with {key}", matching, timeout=timeout)[0]

    def __exit__(self, *_: object) -> None:
        # A shutdown ends the reader's wait; a datagram socket then reads as empty.
        self._socket.shutdown(socket.SHUT_RD)
        super().__exit__()
        self._socket.close()

    def _run(self) -> None:
        while text := self._socket.recv(4096).decode():
            self.messages.append(dict(line.split("=", 1) for line in text.splitlines()))
