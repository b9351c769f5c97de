"""Redacts our credentials in texts of servers, and in URLs."""

import base64
import html
import json
import re
import threading
from collections import defaultdict, deque
from collections.abc import Iterable
from functools import cached_property, lru_cache
from urllib.parse import quote, quote_plus, urlsplit, urlunsplit

from autoscaler.core.text import printable

_HIDDEN = "<hidden>"
_REMEMBERED = 3
"""How many recent values of a header are redacted: an answer may repeat one just replaced."""
_AUTHORIZATION = "authorization"
_SCHEMES = ("bearer ", "basic ")
_LONG = 16
"""Secrets of this length or more are redacted anywhere: no name or number equals one by chance."""
_SHORTEST_DERIVED = 6
"""A shorter encoded form would hide unrelated words."""
_PIECE = 12
"""This many consecutive characters of a secret are redacted, even without the rest."""
_MOST_LOOKED_THROUGH = 1 << 14
"""The longest text that is searched, in characters."""
_LONGEST_IN_PIECES = 1 << 16
"""The characters of a secret that are searched in pieces; no server accepts a longer header."""
# Spaces and invisible characters, as they are or as JSON, Go and `printable` write them.
_BETWEEN = re.compile(
    r"[\s\x00-\x20\x7f-\xa0\xad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]"
    r"|\\[nrt]|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\U[0-9a-fA-F]{8}"
)
# As Go's html/template and encoding/json, and Java's Gson, write them; Python's html differs.
_GO_HTML = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "+": "&#43;"}
)
_GO_JSON = str.maketrans({"&": "\\u0026", "<": "\\u003c", ">": "\\u003e"})
_GSON = _GO_JSON | str.maketrans({"'": "\\u0027", "=": "\\u003d"})


class Redaction:
    """Replaces secrets by a placeholder, in every form in which a server may repeat them.

    These are plain, base64, escaped for a URL, a form, HTML or JSON, or several of these with JSON
    last. Must be applied before a text is cut: half of a short secret is not found.
    """

    def __init__(
        self, secrets: Iterable[str] = (), *, shortest: int = 1, other: "Redaction | None" = None
    ) -> None:
        """Redact secrets of ``shortest`` or more characters, and the pieces of ``other``."""
        chosen = {secret for secret in secrets if len(secret) >= shortest}
        self._secrets = frozenset(chosen)
        self._other = other
        forms = {form for secret in chosen for form in _forms(secret)}
        # The longest first: one secret may be a part of another.
        self._texts = tuple(sorted(forms, key=len, reverse=True))
        self._bodies = tuple(dict.fromkeys(form for text in self._texts for form in _encoded(text)))

    def __repr__(self) -> str:
        return "Redaction(...)"

    def text(self, text: str) -> str:
        """Return a text without the secrets."""
        for form in self._texts:
            text = text.replace(form, _HIDDEN)
        return text

    def pieces(self, text: str) -> str:
        """Return the start of a text; pieces of secrets in it are hidden, spaces inside ignored."""
        text = text[:_MOST_LOOKED_THROUGH]
        left, places = _without_blanks(text)
        hidden: list[tuple[int, int]] = []
        for begin in range(len(left) - _PIECE + 1):
            if self._knows(left[begin : begin + _PIECE]):
                first, end = places[begin], places[begin + _PIECE - 1] + 1
                if hidden and first <= hidden[-1][1]:
                    hidden[-1] = (hidden[-1][0], end)
                else:
                    hidden.append((first, end))
        begin, kept = 0, []
        for first, end in hidden:
            kept += [text[begin:first], _HIDDEN]
            begin = end
        return "".join([*kept, text[begin:]])

    def _knows(self, piece: str) -> bool:
        beside = self._other
        return piece in self._known_pieces or (beside is not None and beside._knows(piece))  # noqa: SLF001 - its own class

    @cached_property
    def _known_pieces(self) -> frozenset[str]:
        """Return all pieces of 12 characters; computed when a text may contain one."""
        new = self._secrets
        if self._other is not None:
            new -= self._other._secrets  # noqa: SLF001 - its own class
        # The name before a password is not a secret.
        own = {secret for secret in new if not any(secret.endswith(f":{p}") for p in self._secrets)}
        forms = (_without_blanks(form)[0] for secret in own for form in _forms(secret))
        texts = (form[:_LONGEST_IN_PIECES] for form in forms)
        return frozenset(
            text[at : at + _PIECE] for text in texts for at in range(len(text) - _PIECE + 1)
        )

    def body(self, body: bytes) -> bytes:
        """Return a body without the secrets, in UTF-8 or Latin-1."""
        for form in self._bodies:
            body = body.replace(form, _HIDDEN.encode())
        return body


class Redactor:
    """Redacts credentials in headers of recent requests, and fixed secrets. Thread-safe."""

    def __init__(self, fixed: Iterable[str] = ()) -> None:
        self._fixed = tuple(fixed)
        self._lock = threading.Lock()
        self._recent: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        """By the name of the header, in lower case."""
        self._in_texts = Redaction(self._fixed)
        self._in_data = Redaction()

    def __repr__(self) -> str:
        return "Redactor(...)"

    def remember(self, value: str | None, header: str = _AUTHORIZATION) -> None:
        """Redact the value of a header, a credential, from now on; called before it is sent."""
        name = header.lower()
        with self._lock:
            if value is None or value in self._recent[name]:
                return
            self._recent[name].append(value)
            own = self._remembered()
            self._in_texts = Redaction((*own, *self._fixed))
            self._in_data = Redaction(own, shortest=_LONG)

    def also(self, *secrets: str) -> "Redactor":
        """Return a Redactor for a single request that also redacts these, as credentials."""
        with self._lock:
            own, beside = (*secrets, *self._remembered()), self._in_texts
        redactor = Redactor(self._fixed)
        redactor._in_texts = Redaction((*own, *self._fixed), other=beside)
        redactor._in_data = Redaction(own, shortest=_LONG)
        return redactor

    def _remembered(self) -> list[str]:
        """Return the secrets of the most recent headers."""
        secrets: list[str] = []
        for name, values in self._recent.items():
            for value in values:
                signs_in = name.endswith(_AUTHORIZATION) or value.lower().startswith(_SCHEMES)
                secrets += () if name == _AUTHORIZATION else (value,)
                secrets += credentials_of(value) if signs_in else ()
        return secrets

    def line(self, text: str, limit: int) -> str:
        """Return a text as one line of at most ``limit`` characters, without secrets and pieces."""
        return printable(self._in_texts.pieces(self._in_texts.text(text)), limit)

    def error_body(self, body: bytes) -> bytes:
        """Return a body that is only used for a message, without any secret."""
        return self._in_texts.body(body)

    def data(self, body: bytes) -> bytes:
        """Return data without credentials of 16 or more characters: shorter ones may be names."""
        return self._in_data.body(body)


def without_secrets(url: str) -> str:
    """Return a URL's scheme, host, port and path, or just a path; empty for other texts."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # The exception quotes the URL.
        return ""
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    return shown.rstrip("/") if parts.netloc else shown


def credentials_of(authorization: str) -> tuple[str, ...]:
    """Return the secrets of an Authorization header: the token, or the pair and the password."""
    scheme, _, value = authorization.partition(" ")
    value = value.strip()
    if scheme.lower() != "basic":
        return (value or scheme,)
    try:
        pair = base64.b64decode(value, validate=True).decode()
    except ValueError:
        return (value,)
    password = pair.partition(":")[2]
    return (value, pair, password) if password else (value,)


def _without_blanks(text: str) -> tuple[str, list[int]]:
    """Return a text without spaces and invisible characters, and the positions of the rest."""
    places: list[int] = []
    begin = 0
    for blank in _BETWEEN.finditer(text):
        places += range(begin, blank.start())
        begin = blank.end()
    places += range(begin, len(text))
    return _BETWEEN.sub("", text), places


def _encoded(form: str) -> Iterable[bytes]:
    yield form.encode(errors="replace")
    if not form.isascii():
        yield form.encode("latin-1", errors="replace")


@lru_cache(maxsize=64)
def _forms(secret: str) -> frozenset[str]:
    """Return all forms of a secret."""
    escaped = {secret, html.escape(secret), secret.translate(_GO_HTML)}
    for percent in (quote(secret, safe="", errors="replace"), quote(secret, errors="replace")):
        escaped |= {percent, _lower(percent)}
    escaped |= {form.replace("%20", "+") for form in escaped if "%20" in form}
    escaped.add(quote_plus(secret, errors="replace"))
    escaped |= {html.escape(form) for form in escaped}
    escaped |= _base64(secret)
    for form in tuple(escaped):
        escaped |= _json(form)
    return frozenset(form for form in escaped if form == secret or len(form) >= _SHORTEST_DERIVED)


def _json(form: str) -> set[str]:
    """Return the forms of a text inside a JSON string."""
    plain = {json.dumps(form)[1:-1], json.dumps(form, ensure_ascii=False)[1:-1]}
    escaped = {text.translate(of) for text in plain for of in (_GO_JSON, _GSON)}
    return {*plain, *escaped, *(text.replace("/", "\\/") for text in plain)}


def _base64(secret: str) -> set[str]:
    """Return a secret's base64, alone and the part that is the same at any position in a text."""
    raw = secret.encode(errors="replace")
    forms = {base64.b64encode(raw).decode()}
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + raw).decode().rstrip("=")
        begin = (before * 8 + 5) // 6
        forms.add(encoded[begin : (before + len(raw)) * 8 // 6])
    return forms | {form.replace("+", "-").replace("/", "_") for form in forms}


def _lower(percent: str) -> str:
    """Return a percent-encoded text with its hexadecimal digits in lower case."""
    head, *rest = percent.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])
