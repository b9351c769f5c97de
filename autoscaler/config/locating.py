"""Findings -> problems: the line and the value are looked up, and secrets are left out."""

from collections.abc import Iterable, Mapping

from autoscaler.config.document import Place, child, place_of
from autoscaler.config.problems import (
    Finding,
    Location,
    Problem,
    describe,
    kind_of,
    one_line,
    path_of,
)
from autoscaler.config.sources import Source

_SHOWN_OF_PROMETHEUS: tuple[Location, ...] = (
    ("prometheus", "timeout"),
    ("prometheus", "tls", "insecureSkipVerify"),
    ("prometheus", "tls", "serverName"),
)


def one_per_place(findings: Iterable[Finding]) -> list[Finding]:
    """Keep the first finding of each place: a name that is malformed need not be unknown too.

    Nor need a key be missing that was only misspelt.
    """
    first: dict[Location, Finding] = {}
    for finding in findings:
        first.setdefault(finding.location, finding)
    meant = {place for finding in first.values() for place in finding.meant}
    return [finding for finding in first.values() if meant.isdisjoint(finding.missing)]


def problems_of(findings: Iterable[Finding], source: Source) -> list[Problem]:
    """Look up the findings in their file."""
    return located(findings, source.value, str(source.path), source.places)


def located(
    findings: Iterable[Finding],
    document: object,
    file: str,
    places: Mapping[Location, Place] | None = None,
) -> list[Problem]:
    """Look up the findings in a document; without ``places`` they have no line."""
    problems = []
    for finding in findings:
        place = place_of(finding.location, places) if places is not None else None
        problems.append(
            Problem(
                file=file,
                line=place.line if place is not None else None,
                path=path_of(_as_written(finding.location, document)),
                value=_shown(finding, document, place),
                message=finding.message,
                details=finding.details,
                ready=finding.ready,
            )
        )
    return problems


def _as_written(location: Location, document: object) -> Location:
    """Leave out `query` where the user wrote the PromQL directly."""
    if location[-1:] == ("query",) and isinstance(child(document, *location[:-1]), str):
        return location[:-1]
    return location


def _shown(finding: Finding, document: object, place: Place | None) -> str | None:
    location = _as_written(finding.location, document)
    if not finding.show_value or (location and child(document, *location[:-1]) is None):
        return None
    value = child(document, *location)
    if location[:1] in {(), ("prometheus",)} and location not in _SHOWN_OF_PROMETHEUS:
        return None if isinstance(value, str) else kind_of(value)
    if place is not None and place.plain and not isinstance(value, str):
        return one_line(place.plain)
    return describe(value)
