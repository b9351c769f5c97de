"""The style sheets and scripts, whose addresses change with their content: `/static/HASH/NAME`."""

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

_TYPES = {
    ".svg": "image/svg+xml",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
_FOREVER = "public, max-age=31536000, immutable"


def url(name: str) -> str:
    """Return the address of a file."""
    return f"/static/{_version()}/{_contents()[name][0]}"


class StaticFiles:
    """Answers below `/static`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; any version gets the file that there is, which only ours may keep."""
        version, _, name = scope["path"].removeprefix(scope["root_path"])[1:].partition("/")
        response: Response = PlainTextResponse("there is no such file\n", 404)
        if (found := _contents().get(name)) is not None:
            _, content_type, body = found
            kept = _FOREVER if version == _version() else "no-cache"
            response = Response(body, media_type=content_type, headers={"Cache-Control": kept})
        await response(scope, receive, send)


@cache
def _contents() -> dict[str, tuple[str, str, bytes]]:
    """Return all files, some 80 kB: the name, type and content of each, by name."""
    return dict(sorted(_below(files(__package__) / "static", "")))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, tuple[str, str, bytes]]]:
    found = []
    for one in folder.iterdir():
        name = prefix + one.name
        kind = _TYPES.get(name[name.rfind(".") :])
        if one.is_dir():
            found += _below(one, f"{name}/")
        elif kind is not None:
            found.append((name, (name, kind, one.read_bytes())))
    return found


@cache
def _version() -> str:
    """Return the hash of all files: scripts import each other by names without one."""
    digest = hashlib.sha256()
    for name, (_, _, body) in _contents().items():
        digest.update(b"%s %d " % (name.encode(), len(body)))
        digest.update(body)
    return digest.hexdigest()[:16]
