"""Tokens and passwords in files, which may be replaced at any time."""

from pathlib import Path

from autoscaler.file_contents import MOST_OF_A_SECRET, read_bytes


class SecretError(Exception):
    """There is no secret that can be used; the message is a sentence that names its file."""


class SecretFile:
    """A file with a secret that is read again for each use, so that a new one is never missed.

    ``what`` it is stands in messages.  With ``ascii_only`` the secret must fit into any header.
    """

    def __init__(self, what: str, path: Path, *, ascii_only: bool = True) -> None:
        self._what = what
        self._path = path
        self._ascii_only = ascii_only
        self._last = ""

    def read(self) -> str:
        """Return the secret; while the file is gone or empty, the last one that was read.

        So it is in the middle of a rotation.  A secret that is not valid any more the server
        rejects.  Raises SecretError.
        """
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
