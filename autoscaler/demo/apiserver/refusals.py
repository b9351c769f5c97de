"""The API server's refusals: `metav1.Status` bodies in its own words."""

from collections.abc import Iterator
from contextlib import contextmanager

from autoscaler.demo.apiserver.objects import KubeObject, ServedResource


class Refused(Exception):  # noqa: N818 - an answer of the server
    """A request that fails, with the Status to send."""

    def __init__(
        self, code: int, reason: str, message: str, details: KubeObject | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status: KubeObject = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        if details is not None:
            self.status["details"] = details


class NoSuchPath(Exception):  # noqa: N818 - the server's plain "404 page not found"
    """Nothing is served below this path; the answer is text, not a Status."""


def not_found(resource: ServedResource, name: str) -> Refused:
    """404: the object is not there."""
    message = f'{resource.qualified} "{name}" not found'
    return Refused(404, "NotFound", message, _details(resource, name))


def already_exists(resource: ServedResource, name: str) -> Refused:
    """409: an object of this name is there."""
    message = f'{resource.qualified} "{name}" already exists'
    return Refused(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: ServedResource, name: str) -> Refused:
    """409: the resourceVersion is not the object's."""
    message = (
        f'Operation cannot be fulfilled on {resource.qualified} "{name}": the object has been '
        "modified; please apply your changes to the latest version and try again"
    )
    return Refused(409, "Conflict", message, _details(resource, name))


def bad_request(message: str) -> Refused:
    """400: the request cannot be understood."""
    return Refused(400, "BadRequest", message)


def unauthorized() -> Refused:
    """401: the token is not known."""
    return Refused(401, "Unauthorized", "Unauthorized")


def method_not_allowed() -> Refused:
    """405: the path is served, but not with this method."""
    message = "the server does not allow this method on the requested resource"
    return Refused(405, "MethodNotAllowed", message, {})


def unsupported_media_type() -> Refused:
    """415: the body's type is not one that the server reads here."""
    message = "the body of the request was in an unknown format"
    return Refused(415, "UnsupportedMediaType", message)


def expired(version: int, oldest: int) -> Refused:
    """410: the resourceVersion is older than what the server kept."""
    return Refused(410, "Expired", f"too old resource version: {version} ({oldest})")


@contextmanager
def if_there() -> Iterator[None]:
    """Suppress 404: a client has deleted the object meanwhile."""
    try:
        yield
    except Refused as refused:
        if refused.code != 404:
            raise


def _details(resource: ServedResource, name: str) -> KubeObject:
    """Return the details that name an object: name, group and (plural) kind, none of them empty."""
    parts = {"name": name, "group": resource.group, "kind": resource.plural}
    return {field: value for field, value in parts.items() if value}
