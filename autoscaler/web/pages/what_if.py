"""The part of a target's page that rehearses it with other settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from autoscaler.core.target import Target
from autoscaler.rendering.answers import Mistake, ProblemDetails
from autoscaler.rendering.rehearsal import RehearsalAnswer
from autoscaler.web.pages.report import LINE_COLOURS, ReportSection, data_of, section_of
from autoscaler.web.site import Views
from autoscaler.web.what_if import body_of, client_of, what_if, yaml_in_force

FIELD = "target"
"""The name of the text in the form."""
_NAME = "rehearsed"


@dataclass(frozen=True, slots=True)
class Draft:
    """What a form was sent with: the YAML of a target, or why it was not read."""

    text: str = ""
    client: str = ""
    problem: ProblemDetails | None = None


@dataclass(frozen=True, slots=True)
class WhatIfSection:
    """The form, and what came of what was sent; ``data`` is what is drawn, as JSON."""

    text: str
    is_open: bool = False
    problem: str = ""
    mistakes: Sequence[tuple[Mistake, str]] = ()
    """Each with the line that it is of."""
    rehearsed: ReportSection | None = None
    names: Sequence[str] = (_NAME,)
    line_colours: Sequence[str] = LINE_COLOURS
    changed: str = ""
    data: str = ""


async def draft_of(request: Request) -> Draft:
    """Read the form that a request has."""
    body = await body_of(request)
    if isinstance(body, ProblemDetails):
        return Draft(problem=body)
    fields = parse_qs(body.decode("latin-1"), keep_blank_values=True, max_num_fields=4)
    return Draft(fields.get(FIELD, [""])[0].replace("\r\n", "\n"), client_of(request))


def what_if_section(
    views: Views, target: Target, span: tuple[float, float], draft: Draft | None
) -> WhatIfSection:
    """Return the form with what is in force, or with what was sent and what came of it."""
    if draft is None:
        return WhatIfSection(yaml_in_force(target))
    answer = draft.problem or what_if(views, target, draft.text, span, draft.client)
    text = draft.text or yaml_in_force(target)
    if isinstance(answer, ProblemDetails):
        lines = text.split("\n")
        mistakes = [
            (one, lines[one.line - 1] if one.line is not None and one.line <= len(lines) else "")
            for one in answer.mistakes
        ]
        return WhatIfSection(text, is_open=True, problem=answer.detail, mistakes=mistakes)
    found = answer.target
    whole = RehearsalAnswer(begin=found.begin, end=found.end, targets=(found,))
    return WhatIfSection(
        text,
        is_open=True,
        rehearsed=section_of([_NAME], [whole], found),
        changed=answer.changed,
        data=data_of({_NAME: whole}),
    )


def with_status(draft: Draft, response: Response) -> Response:
    """Return the response to a form: that which was not read at all says so by its status."""
    if draft.problem is not None:
        response.status_code = draft.problem.status
    return response
