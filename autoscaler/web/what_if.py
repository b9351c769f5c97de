"""What a target would have done with other settings: rehearsed by a process of its own.

So many run at once, one for each client, each for so long and in so much memory, that the syncs of
the daemon stay where they are.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from starlette.requests import ClientDisconnect, Request

from autoscaler.config.written import as_written
from autoscaler.core.target import Target
from autoscaler.documents import as_yaml
from autoscaler.rendering.answers import ProblemDetails
from autoscaler.rendering.rehearsal import WhatIfAnswer
from autoscaler.settings.durations import format_seconds
from autoscaler.web.answering import problem_of
from autoscaler.web.site import Views

MOST_AT_ONCE = 2
"""So many processes run at once, of all clients."""
MOST_WAITING = 8
"""So many requests are taken in at once; those that are not admitted are answered soon."""
MOST_SECONDS = 7.0
"""How long one may take; a connection lasts ten."""
MOST_YAML = 32 << 10
"""Characters of a target's YAML."""
MOST_BODY = 100 << 10
"""Bytes of a request: in a form YAML takes up to three times its characters."""
COMMAND = [sys.executable, "-P", "-m", "autoscaler.web.what_if_process"]
"""Answers a question; -P keeps out what lies in the working directory."""


class WhatIfRoom:
    """Admits `MOST_AT_ONCE` clients, each once; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._clients: set[str] = set()

    @contextmanager
    def entered(self, client: str) -> Iterator[ProblemDetails | None]:
        """Yield None to a client that is in, and to any other why it is not."""
        with self._lock:
            refusal = self._refusal(client)
            if refusal is None:
                self._clients.add(client)
        try:
            yield refusal
        finally:
            if refusal is None:
                with self._lock:
                    self._clients.discard(client)

    def _refusal(self, client: str) -> ProblemDetails | None:
        if client in self._clients:
            return problem_of(429, "another rehearsal of yours is running; wait for its end")
        if len(self._clients) >= MOST_AT_ONCE:
            return problem_of(503, "other rehearsals are running; try again in some seconds")
        return None


_ROOM = WhatIfRoom()
"""That of the process."""


def yaml_in_force(target: Target) -> str:
    """Return the YAML of a target as it is in force; there is no secret in one."""
    return as_yaml(as_written(target)) + "\n"


def client_of(request: Request) -> str:
    """Return who asks: by the credentials, or by the address."""
    address = "" if request.client is None else request.client.host
    return request.headers.get("authorization", "") or address


async def body_of(request: Request) -> bytes | ProblemDetails:
    """Return the body of a request, or why it is not read."""
    length = request.headers.get("content-length", "")
    if not length.isdecimal():
        return problem_of(411, "the request needs a Content-Length")
    if int(length) > MOST_BODY:
        return problem_of(413, f"the request has more than {MOST_BODY >> 10} KiB")
    try:
        return await request.body()
    except ClientDisconnect:
        return problem_of(400, "the request ended before its body")


def what_if(
    views: Views, target: Target, text: str, span: tuple[float, float], client: str
) -> WhatIfAnswer | ProblemDetails:
    """Rehearse a target by the YAML in ``text``, over a time; or say why it cannot be."""
    if views.record is None:
        return problem_of(503, "the record is off: there is nothing to rehearse from")
    if len(text) > MOST_YAML:
        return problem_of(413, f"the YAML has more than {MOST_YAML >> 10} Ki characters")
    config = views.config()
    question = {
        "text": text.replace("\r\n", "\n"),
        "inForce": as_written(target),
        "servers": list(config.prometheus.servers),
        "clusters": [
            {
                "name": cluster.name,
                "context": "none",
                "seriesLabels": dict(cluster.series_labels),
                "prometheus": cluster.prometheus,
            }
            for cluster in config.clusters or ()
        ],
        "syncPeriod": format_seconds(config.sync_period),
        "flags": asdict(config.flags),
        "directory": str(views.record.directory),
        "begin": span[0],
        "end": span[1],
    }
    with _ROOM.entered(client) as refusal:
        return refusal or asked(json.dumps(question).encode())


def asked(question: bytes) -> WhatIfAnswer | ProblemDetails:
    """Let a process answer."""
    try:
        ended = subprocess.run(  # noqa: S603 - a module of ours
            COMMAND, input=question, capture_output=True, timeout=MOST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        sentence = (
            f"it has not ended in {MOST_SECONDS:g} s, as everything else on the machine goes "
        )
        sentence += "first; choose a shorter time, or use `autoscaler replay --from-record`"
        return problem_of(422, sentence)
    except OSError as error:
        return problem_of(503, f"no process can be started: {error.strerror}")
    if ended.returncode or not ended.stdout:
        sentence = "the rehearsal ended before its time: it may need too much memory"
        return problem_of(422, f"{sentence}; choose a shorter time")
    return answer_in(ended.stdout)


def answer_in(text: bytes) -> WhatIfAnswer | ProblemDetails:
    """Read what a process has answered."""
    found = json.loads(text)
    kind = ProblemDetails if "status" in found else WhatIfAnswer
    return kind.model_validate(found)
