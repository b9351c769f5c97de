"""The Kubernetes API as paths and JSON, for the tests' own side of a conversation."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeAlias

import requests
import requests.adapters

Json: TypeAlias = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """A response with an error status; `status` is its HTTP code, `reason` the API's word."""

    def __init__(self, response: requests.Response) -> None:
        self.status = response.status_code
        try:
            body = response.json()
        except requests.JSONDecodeError:
            body = {}
        self.reason = str(body.get("reason", ""))
        message = body.get("message", response.text[:500])
        request = response.request
        super().__init__(f"{request.method} {request.url}: {self.status} {self.reason}: {message}")


class ApiSession:
    """A session with one apiserver as one user, unless a request names another token."""

    def __init__(
        self, url: str, token: str, ca_file: Path | None = None, *, connections: int = 16
    ) -> None:
        self.url, self.token = url, token
        self._session = requests.Session()
        # The surrounding environment has no say: neither proxies, nor .netrc, nor a CA bundle.
        self._session.trust_env = False
        self._session.verify = True if ca_file is None else str(ca_file)
        # On loopback, compression costs more time than it saves.
        self._session.headers["Accept-Encoding"] = "identity"
        self._session.mount(
            "https://", requests.adapters.HTTPAdapter(pool_maxsize=connections, pool_block=True)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._session.close()

    def respond(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        token: str | None = None,
        content_type: str = "application/json",
        **options: Any,
    ) -> requests.Response:
        """Send a request, without a token if that is empty; options of `requests`."""
        chosen = self.token if token is None else token
        return self._session.request(
            method,
            self.url + path,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type}
            | ({"Authorization": f"Bearer {chosen}"} if chosen else {}),
            **{"timeout": 30, **options},
        )


class Api(ApiSession):
    """The API as one user; an error is raised. Threads may share it."""

    def get(self, path: str, **params: str | int) -> Json:
        return self._send("GET", path, params=params)

    def text(self, path: str) -> str:
        return self.respond("GET", path).text

    def create(self, path: str, body: Json) -> Json:
        """POST the object to its collection, or to a subresource such as binding."""
        return self._send("POST", path, body)

    def replace(self, path: str, body: Json) -> Json:
        """PUT the object; a resourceVersion in it must be the current one."""
        return self._send("PUT", path, body)

    def patch(self, path: str, body: Json, content_type: str = MERGE_PATCH) -> Json:
        return self._send("PATCH", path, body, content_type=content_type)

    def delete(self, path: str, body: Json | None = None) -> Json:
        """DELETE the object or collection; `body` is a DeleteOptions."""
        return self._send("DELETE", path, body)

    def healthy(self, path: str, timeout: float = 2.0) -> bool:
        """Whether the path answers 200; false too where nothing listens."""
        try:
            return self.respond("GET", path, timeout=timeout).status_code == 200
        except requests.RequestException:
            return False

    def watch(self, path: str, **params: str | int) -> "Watch":
        query = {**params, "watch": "1"}
        response = self.respond("GET", path, params=query, stream=True, timeout=(5, None))
        if not response.ok:
            raise ApiError(response)
        return Watch(response)

    def _send(self, method: str, path: str, body: Json | None = None, **options: Any) -> Json:
        response = self.respond(method, path, body, **options)
        if not response.ok:
            raise ApiError(response)
        answer: Json = response.json()
        return answer


class Watch:
    """An open watch: an iterator of events that another thread may end."""

    def __init__(self, response: requests.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[Json]:
        """Yield events until the server ends the watch or `cancel` does."""
        try:
            for line in self._response.iter_lines(chunk_size=None):
                yield json.loads(line)
        finally:
            self._response.close()

    def cancel(self) -> None:
        """End the iteration of another thread."""
        # urllib3 raises these two when the watch has ended already.
        with suppress(ValueError, RuntimeError):
            self._response.raw.shutdown()
