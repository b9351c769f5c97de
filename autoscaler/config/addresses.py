"""Addresses: the URL of a server that is asked, and the address that is listened on."""

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from autoscaler.config.settings import Address

_LABEL = r"[0-9A-Za-z_-]{1,63}"
_HOST = rf"(\[(?P<ipv6>[^\]]*)\]|(?P<name>{_LABEL}(\.{_LABEL})*\.?))"
_HOST_PATTERN = rf"(\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]|{_LABEL}(\.{_LABEL})*\.?)"
_URL = re.compile(rf"https?://{_HOST}(:(?P<port>[0-9]{{1,5}}))?(/[^\s\x00-\x1f\x7f]*)?")
_LISTEN = re.compile(rf"{_HOST}?:(?P<port>[0-9]{{1,5}})")
_HIGHEST_PORT = 65535
_LONGEST_NAME = 253


def _url(text: str) -> str:
    authority = text.partition("://")[2].partition("/")[0]
    if "@" in authority:
        raise ValueError(
            "must not hold credentials; put the user into basicAuth.username and the password "
            "into a file that basicAuth.passwordFile names (or use bearerTokenFile)"
        )
    if "?" in text or "#" in text:
        raise ValueError(
            "must end with the path, without ? and #; parameters belong in queryParameters"
        )
    form = _URL.fullmatch(text)
    if form is None or int(form["port"] or 0) > _HIGHEST_PORT or not _is_host(form):
        raise ValueError("must be an address such as http://prometheus:9090 or https://host/path")
    return text.rstrip("/")


def _listen(value: object) -> Address:
    form = _LISTEN.fullmatch(value) if isinstance(value, str) else None
    if form is None or int(form["port"]) > _HIGHEST_PORT or not _is_host(form):
        raise ValueError(
            'must be an address and a port, such as 127.0.0.1:9191, "[::1]:9191" or :9191 for all '
            "addresses; null listens nowhere"
        )
    return Address(host=form["ipv6"] or form["name"] or "", port=int(form["port"]))


def _is_host(form: re.Match[str]) -> bool:
    if form["ipv6"] is None:
        return len(form["name"] or "") <= _LONGEST_NAME
    try:
        # Without a zone: it means nothing outside the machine that numbers its interfaces.
        return ipaddress.IPv6Address(form["ipv6"]).scope_id is None
    except ValueError:
        return False


Url = Annotated[
    str,
    AfterValidator(_url),
    WithJsonSchema(
        {"type": "string", "pattern": rf"^https?://{_HOST_PATTERN}(:[0-9]{{1,5}})?(/[^\s?#]*)?$"}
    ),
]
Listen = Annotated[
    Address,
    BeforeValidator(_listen),
    WithJsonSchema({"type": "string", "pattern": rf"^{_HOST_PATTERN}?:[0-9]{{1,5}}$"}),
]
