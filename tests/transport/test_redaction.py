"""Secrets in all the forms in which a server may send them back."""

import base64
import html
import json
import re
import time
from collections.abc import Callable, Sequence
from urllib.parse import quote, quote_plus

import pytest

from autoscaler.transport.redaction import Redactor, credentials_of

TOKEN = "eyJhbGciOi.J9+x/y=z_0-~"  # noqa: S105 - made up
PASSWORD = "p&ss <w>/r\"d'+%ü"  # noqa: S105 - made up

_GO = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;", "+": "&#43;"}
)


def _json(text: str) -> str:
    return json.dumps(text)[1:-1]


def _lower(text: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), quote(text, safe=""))


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "percent": lambda secret: quote(secret, safe=""),
    "percent but slashes": quote,
    "percent-lower": _lower,
    "form": quote_plus,
    "HTML": html.escape,
    "HTML of Go": lambda secret: secret.translate(_GO),
    "JSON": _json,
    "JSON of Go": lambda secret: re.sub(
        "[&<>]", lambda found: f"\\u{ord(found[0]):04x}", _json(secret)
    ),
    "JSON of PHP": lambda secret: _json(secret).replace("/", "\\/"),
    "HTML in JSON": lambda secret: _json(html.escape(secret)),
    "URL in JSON": lambda secret: _json(quote_plus(secret)),
    "base64": _base64,
    "base64 within another": lambda secret: _base64(f"x{secret}y"),
    "base64 for URLs": lambda secret: base64.urlsafe_b64encode(f"xy{secret}".encode()).decode(),
}


def redactor_of(*authorizations: str, fixed: Sequence[str] = ()) -> Redactor:
    redactor = Redactor(fixed)
    for authorization in authorizations:
        redactor.remember(authorization)
    return redactor


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("secret", [TOKEN, PASSWORD])
def test_every_form_is_hidden(form: str, secret: str) -> None:
    redactor = redactor_of(f"Bearer {TOKEN}", f"Basic {_base64(f'me:{PASSWORD}')}")
    sent = f"who is {FORMS[form](secret)} then"
    for shown in (redactor.line(sent, 500), redactor.error_body(sent.encode()).decode()):
        before, _, after = shown.partition("<hidden>")
        # Of base64 the characters at both ends are the neighbours', too.
        assert (before[:7], after[-5:]) == ("who is ", " then")
        assert len(before[7:]) <= 3
        assert len(after[:-5]) <= 4


def test_a_replaced_token_is_still_hidden() -> None:
    tokens = [f"Bearer token-number-{number}" for number in range(3)]
    redactor = redactor_of(*tokens, fixed=("fixed-secret",))
    text = redactor.line("token-number-0 token-number-2 fixed-secret", 99)
    assert text == "<hidden> <hidden> <hidden>"


def test_a_text_is_redacted_before_it_is_cut() -> None:
    redactor = redactor_of(f"Bearer {TOKEN}")
    shown = redactor.line("x" * 90 + TOKEN + "\x1b[2J\u202e\n", 100)
    assert shown == "x" * 90 + "<hidden>\\…"
    assert redactor.line("a\x1b[2J\u202e\r\nb", 100) == "a\\x1b[2J\\u202e b"


def test_data_keeps_short_secrets_that_may_be_names() -> None:
    authorizations = f"Basic {_base64('me:web')}", f"Bearer {TOKEN}"
    redactor = redactor_of(*authorizations, fixed=("tenant-of-the-shop",))
    body = f'{{"name":"web","tenant":"tenant-of-the-shop","x":"{TOKEN}"}}'.encode()
    assert redactor.data(body) == body.replace(TOKEN.encode(), b"<hidden>")
    assert redactor.error_body(b"web, tenant-of-the-shop") == b"<hidden>, <hidden>"


def test_credentials_are_found_in_a_header() -> None:
    """The token without its scheme; of a pair the password, too, unless there is none."""
    pair, nobody = _base64("me:pass"), _base64("me:")
    assert credentials_of("Bearer abc") == ("abc",)
    assert credentials_of(f"basic {pair}") == (pair, "me:pass", "pass")
    assert credentials_of(f"Basic {nobody}") == (nobody,)
    assert credentials_of("Basic no base64!") == ("no base64!",)
    assert repr(Redactor(("secret",))) == "Redactor(...)"


WRAPPED: dict[str, Callable[[str], str]] = {
    "cut-at-end": lambda secret: secret[:14],
    "cut-at-beginning": lambda secret: secret[-14:],
    "from-the-middle": lambda secret: secret[3:17],
    "wrapped": lambda secret: f"{secret[:7]}\n{secret[7:14]}\r\n\t{secret[14:]}",
    "blanks-between": " ".join,
    "unseen-between": "\u200b\x00".join,
    "escaped-breaks": r"\n".join,
    "escaped-controls": lambda secret: r"\x1b\u202e ".join([secret[:6], secret[6:]]),
    "base64-cut": lambda secret: _base64(secret)[:16],
    "base64-wrapped": lambda secret: "\n".join(re.findall(".{1,5}", _base64(secret))),
}


@pytest.mark.parametrize("how", WRAPPED)
@pytest.mark.parametrize("secret", [TOKEN, "fixed/secret of-a+client"])
def test_a_piece_is_hidden(how: str, secret: str) -> None:
    redactor = redactor_of(f"Bearer {TOKEN}", fixed=("fixed/secret of-a+client",))
    shown = redactor.line(f"who is {WRAPPED[how](secret)} then", 500)
    assert "<hidden>" in shown
    left = re.sub(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\[nrt]| ", "", shown)
    for at in range(len(secret) - 5):
        assert secret[at : at + 6] not in left
        assert _base64(secret)[at : at + 6] not in left


def test_short_pieces_and_user_names_are_shown() -> None:
    """They are words: who is refused is told so by the name."""
    redactor = redactor_of(f"Basic {_base64('prometheus-reader:correct-horse')}")
    text = "prometheus-reader: a correct-hor of prometheus-reader"
    assert redactor.line(text, 500) == text
    assert redactor.line("a correct-horse", 500) == "a <hidden>"
    assert redactor.line("a prometheus-reader:correct-horse", 500) == "a <hidden>"


def test_pieces_are_found_in_linear_time() -> None:
    redactor = redactor_of(f"Bearer {TOKEN}")
    times = []
    for count in (1, 4):
        text = (TOKEN[:11] + "\n") * count * 300
        begun = time.thread_time()
        for _ in range(5):
            assert "<hidden>" not in redactor.line(text, 2000)
        times.append(time.thread_time() - begun)
    assert times[1] < 4 * 4 * max(times[0], 1e-3)
    huge = " ".join(TOKEN) * 50_000
    begun = time.thread_time()
    assert redactor.line(huge, 2000).startswith("<hidden>")
    assert len(redactor.line(huge, 2000)) < len("<hidden>") + 2 * 12
    assert time.thread_time() - begun < 1


def test_each_header_has_its_own_remembered_secrets() -> None:
    """Many tokens do not make a key forgotten; one for a single request hides the key as well."""
    redactor = Redactor(["fixed-secret"])
    redactor.remember("a secret key", header="X-Key")
    redactor.remember("Bearer own-token", header="X-Auth")
    for number in range(5):
        redactor.remember(f"Bearer token-{number}")
    text = "a secret key, own-token, token-4, token-1, fixed-secret, signature; a key"
    hidden = "<hidden>, <hidden>, <hidden>, token-1, <hidden>, <hidden>; a key"
    assert redactor.also("signature").line(text, 200) == hidden
    assert redactor.line(text, 200) == hidden.replace("<hidden>; a", "signature; a")


def test_a_redactor_for_a_single_request_hides_all_secrets() -> None:
    secrets = ["remembered+token/of-hour", "fixed/secret of-a+client", "signature-of-the/request"]
    redactor = Redactor(secrets[1:2])
    redactor.remember(secrets[0], header="X-Amz-Security-Token")
    own = redactor.also(secrets[2])
    redactor.remember("the/next+hours-token", header="X-Amz-Security-Token")
    for secret in secrets:
        for piece in (secret[2:16], _base64(secret)[3:19], quote(secret, safe="")[4:18]):
            assert own.line(f"a {piece}", 200) == "a <hidden>"
    assert redactor.also(secrets[2]).line("a the/next+hours", 200) == "a <hidden>"
