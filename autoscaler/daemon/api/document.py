"""The OpenAPI document, made of the application's endpoints and their models."""

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from autoscaler.daemon.api import PREFIX
from autoscaler.daemon.api.problems import MEDIA_TYPE

_DESCRIPTION = (
    "How the targets of a daemon stand, what it has decided, and why. Read-only. Times are RFC "
    "3339 in UTC; what has no value is null or absent."
)
_HISTORIES: dict[str, Any] = {
    "get": {
        "operationId": "histories",
        "summary": "Histories",
        "description": "What each target remembers, for `autoscaler plan`: a header, then a line "
        "for each target. Its form is that of the version that sends it.",
        "responses": {
            "200": {
                "description": "Lines of JSON.",
                "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
            },
            "503": {
                "description": "The daemon starts.",
                "content": {"text/plain": {"schema": {"type": "string"}}},
            },
        },
    }
}


def document(app: FastAPI) -> bytes:
    """Return the document as JSON."""
    made = get_openapi(
        title=app.title,
        version=app.version,
        description=_DESCRIPTION,
        routes=app.routes,
        servers=[{"url": PREFIX}],
        separate_input_output_schemas=False,
    )
    for path in made["paths"].values():
        for operation in path.values():
            operation["operationId"] = operation["summary"].lower()
            problem = operation["responses"]["default"]
            problem["content"] = {MEDIA_TYPE: problem["content"].pop("application/json")}
    made["paths"]["/histories"] = _HISTORIES
    return json.dumps(made).encode() + b"\n"
