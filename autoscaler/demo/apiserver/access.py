"""Who may do what: bearer tokens, and the two rights that the stand-in knows."""

import hmac
from dataclasses import dataclass

from autoscaler.demo.apiserver import status
from autoscaler.demo.apiserver.requests import Request

# `system:public-info-viewer` and `system:discovery`, the roles that every cluster has.
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version")
_DISCOVERY = ("/api", "/apis", "/openapi")
_READING = frozenset({"get", "list", "watch"})


@dataclass(frozen=True, slots=True)
class User:
    """Who sends a request."""

    name: str
    reads: bool = False
    writes: bool = False


ANONYMOUS = User("system:anonymous")
ADMIN = User("admin", reads=True, writes=True)
READER = User("reader", reads=True)


class Access:
    """The tokens of a cluster."""

    def __init__(self, token: str, read_only_token: str | None = None) -> None:
        self._users = [(token, ADMIN)]
        if read_only_token is not None:
            self._users.append((read_only_token, READER))

    def authenticate(self, authorization: str | None) -> User:
        """Return the user of an Authorization header.  Raises Unauthorized."""
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        for known, user in self._users:
            if scheme.lower() == "bearer" and hmac.compare_digest(token.encode(), known.encode()):
                return user
        raise status.unauthorized()

    def authorize(self, user: User, request: Request) -> None:
        """Raise Forbidden if the user lacks the right."""
        if user.writes:
            return
        if request.group is None or not request.plural:
            self._authorize_path(user, request)
        elif not (user.reads and request.verb in _READING):
            raise _forbidden(user, request)

    @staticmethod
    def _authorize_path(user: User, request: Request) -> None:
        open_to = _PUBLIC if user is ANONYMOUS else (*_PUBLIC, *_DISCOVERY)
        path = request.path
        if request.method == "GET" and any(
            path == start or path.startswith(f"{start}/") for start in open_to
        ):
            return
        message = f'forbidden: User "{user.name}" cannot {request.verb} path "{path}"'
        raise status.ApiError(403, "Forbidden", message, {})


def _forbidden(user: User, request: Request) -> status.ApiError:
    group = request.group or ""
    qualified = f"{request.plural}.{group}" if group else request.plural
    full = f"{request.plural}/{request.subresource}" if request.subresource else request.plural
    # A namespace is in itself.
    namespace = request.name if request.plural == "namespaces" else request.namespace
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    named = f'{qualified} "{request.name}"' if request.name else qualified
    message = (
        f'{named} is forbidden: User "{user.name}" cannot {request.verb} resource "{full}" '
        f'in API group "{group}" {where}'
    )
    parts = {"name": request.name, "group": group, "kind": request.plural}
    return status.ApiError(403, "Forbidden", message, {k: v for k, v in parts.items() if v})
