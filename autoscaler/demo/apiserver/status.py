"""The API server's refusals: `metav1.Status` bodies in its own words.

Every form here was compared with the answers of kube-apiserver v1.36.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from autoscaler.demo.apiserver.objects import KubeObject
from autoscaler.demo.apiserver.resources import Resource


class ApiError(Exception):
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
        }
        if reason:
            self.status["reason"] = reason
        if details is not None:
            self.status["details"] = details
        self.status["code"] = code


class NoSuchPath(Exception):  # noqa: N818 - the server's plain "404 page not found"
    """Nothing is served below this path; the answer is text, not a Status."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One `StatusCause` of an Invalid answer."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


def details_of(resource: Resource, name: str) -> KubeObject:
    """Return the details that name an object: name, group and (plural) kind, none of them empty."""
    parts = {"name": name, "group": resource.group, "kind": resource.plural}
    return {field: value for field, value in parts.items() if value}


def not_found(resource: Resource, name: str) -> ApiError:
    """404: the object is not there."""
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, details_of(resource, name))


def unknown_path() -> ApiError:
    """404 below a group that is served: no such version, resource or subresource."""
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(resource: Resource, name: str) -> ApiError:
    """409: an object of this name is there."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details_of(resource, name))


_STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(resource: Resource, name: str, why: str = _STALE) -> ApiError:
    """409: the resourceVersion (or another precondition) is not the object's."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, details_of(resource, name))


def bad_request(message: str) -> ApiError:
    """400: the request cannot be understood."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """401: the token is not known."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed(resource: Resource | None = None, verb: str = "") -> ApiError:
    """405: the path is served, but not with this method."""
    if resource is None or not resource.custom:
        message = "the server does not allow this method on the requested resource"
        return ApiError(405, "MethodNotAllowed", message, {})
    message = f'{verb} is not supported on resources of kind "{resource.qualified}"'
    return ApiError(405, "MethodNotAllowed", message, details_of(resource, ""))


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415: the body's type is not one that the server reads here."""
    message = (
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted)
    )
    return ApiError(415, "UnsupportedMediaType", message)


def invalid(kind: str, group: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422: the object is understood, and its values are refused."""
    said = [str(error) for error in errors]
    summary = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    qualified = f"{kind}.{group}" if group else kind
    details: KubeObject = {
        field: value for field, value in (("name", name), ("group", group), ("kind", kind)) if value
    }
    details["causes"] = [
        {"reason": error.reason, "message": error.message, "field": error.field} for error in errors
    ]
    return ApiError(422, "Invalid", f'{qualified} "{name}" is invalid: {summary}', details)


def internal_error(message: str) -> ApiError:
    """500: the server cannot make sense of what it stores."""
    details = {"causes": [{"message": message}]}
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", details)


def expired(message: str) -> ApiError:
    """410: the resourceVersion is older than what the server kept."""
    return ApiError(410, "Expired", message)


def too_large(asked: int, current: int) -> ApiError:
    """504: the resourceVersion is from the future."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    return ApiError(504, "Timeout", message, details)


@contextmanager
def if_there() -> Iterator[None]:
    """Suppress 404: another client has deleted the object meanwhile."""
    try:
        yield
    except ApiError as error:
        if error.code != 404:
            raise
