"""The report of `autoscaler import`: the outcome of each source, as text or JSON."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autoscaler.config.documents import one_line, path_of
from autoscaler.core.text import printable
from autoscaler.migrate.conversion import ImportedManifest, ImportState
from autoscaler.migrate.drafts import SecretValue
from autoscaler.migrate.fields import KeyOutcome
from autoscaler.migrate.manifests import Lines, UnreadDocument
from autoscaler.rendering import wording

_LONGEST = 2000
_MOST_PLACES = 5
"""The most names in a line of text."""
_MOST_KINDS = 5

_HEADINGS = {KeyOutcome.CARRIED: "exactly", KeyOutcome.IGNORED: "ignored"}
_VERSION = 1
"""The version of the JSON."""


@dataclass(frozen=True)
class ImportReport:
    """The outcomes of all sources of one import."""

    imported: Sequence[ImportedManifest]
    unread: Sequence[UnreadDocument] = ()
    notes: Sequence[str] = ()
    """Notes on the configuration as a whole."""
    failures: Sequence[str] = ()
    """What could not be asked."""
    lines: Lines = field(default_factory=Lines)
    verbose: bool = False
    """Whether its text includes the keys that need no attention."""

    @property
    def states(self) -> Counter[ImportState]:
        """The number of sources with each outcome; unreadable ones count as refused."""
        counted = Counter(manifest.state for manifest in self.imported)
        counted[ImportState.REFUSED] += len(self.unread)
        return counted

    @property
    def is_whole(self) -> bool:
        """Whether the configuration is valid without further decisions or steps."""
        left = (
            self.states[ImportState.REFUSED] + self.states[ImportState.IN_PART] + len(self.failures)
        )
        return not left and not self.secrets

    @property
    def secrets(self) -> list[SecretValue]:
        """The files that the configuration names."""
        return list(
            dict.fromkeys(file for manifest in self.imported for file in manifest.draft.secrets)
        )

    @property
    def summary(self) -> str:
        """One line on all of it."""
        states = self.states
        parts = [f"{wording.counted(states[ImportState.IMPORTED], 'autoscaler')} imported"]
        if states[ImportState.IN_PART]:
            parts.append(f"{states[ImportState.IN_PART]} in part, with `undecided` entries")
        if states[ImportState.REFUSED]:
            parts.append(f"{states[ImportState.REFUSED]} refused")
        text = ", ".join(parts)
        others = Counter(
            manifest.why for manifest in self.imported if manifest.state is ImportState.OTHER
        )
        if others:
            kinds = [f"{printable(kind, 60)} {n}" for kind, n in others.most_common(_MOST_KINDS)]
            more = ", ..." if len(others) > _MOST_KINDS else ""
            documents = wording.counted(others.total(), "other document")
            text += f"; {documents} left alone ({', '.join(kinds)}{more})"
        return text

    # -- text --------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the report for a terminal: sources, then differences, then the next steps."""
        return "\n".join(one_line(line, _LONGEST) for line in self._text_lines())

    def _text_lines(self) -> Iterator[str]:
        for manifest in self.imported:
            if manifest.state not in {ImportState.OTHER, ImportState.REFUSED}:
                yield self._source(manifest)
                yield from self._keys(manifest) if self.verbose else ()
        for heading, sentences in (
            ("Differences", list(self._sentences(KeyOutcome.DIFFERENT))),
            ("To do", list(self._to_do())),
        ):
            yield from [f"{heading}:", *(f"- {text}" for text in sentences)] if sentences else []
        yield self.summary

    def _source(self, manifest: ImportedManifest) -> str:
        place = _place(manifest.manifest.file, self.lines.line(manifest.manifest))
        became = f" -> {_target(manifest)}" if manifest.target else f": {manifest.why}"
        part = ", in part" if manifest.state is ImportState.IN_PART else ""
        refused = ": refused" if manifest.state is ImportState.REFUSED else ""
        return f"{place}: {_called(manifest)}{refused}{became}{part}"

    def _keys(self, manifest: ImportedManifest) -> Iterator[str]:
        """Yield the keys that are carried over unchanged, and those that need no counterpart."""
        groups: dict[tuple[KeyOutcome, str], list[str]] = defaultdict(list)
        for entry in manifest.entries:
            groups[entry.outcome, entry.why].append(path_of(entry.location) or "all of it")
        for outcome, heading in _HEADINGS.items():
            for (of, why), paths in groups.items():
                if of is outcome:
                    yield ": ".join(filter(None, (f"  {heading}", ", ".join(paths), why)))

    def _sentences(self, outcome: KeyOutcome) -> Iterator[str]:
        """Yield the notes on keys, each note once with the places of all its keys."""
        found: dict[str, list[str]] = defaultdict(list)
        for manifest in self.imported:
            for entry in manifest.entries if manifest.state is not ImportState.OTHER else ():
                if entry.outcome is outcome and entry.location:
                    line = self.lines.line(manifest.manifest, entry.location)
                    kind = f" ({entry.kind})" if entry.kind else ""
                    place = (
                        f"{_place(manifest.manifest.file, line)}: {path_of(entry.location)}{kind}"
                    )
                    is_refused = outcome is KeyOutcome.REFUSED
                    found[entry.sentence if is_refused else entry.why].append(place)
        for sentence, (first, *others) in found.items():
            more = [place.partition(": ")[0] for place in others[:_MOST_PLACES]]
            more += [f"{len(others) - len(more)} more"] if len(others) > len(more) else []
            yield f"{first}: {sentence}" + (f" (also {', '.join(more)})" if more else "")

    def _to_do(self) -> Iterator[str]:
        for manifest in self.imported:
            if manifest.state is ImportState.REFUSED:
                yield self._source(manifest)
        for unread in self.unread:
            document = "" if unread.document is None else f"document {unread.document}: "
            yield f"{_place(unread.file, unread.line)}: {document}refused: {unread.why}"
        yield from self._sentences(KeyOutcome.REFUSED)
        yield from (f"not asked: {failure}" for failure in self.failures)
        yield from self.notes
        for secret in self.secrets:
            of = f"the key {secret.key} of {secret.kind} {secret.namespace}/{secret.name}"
            yield f"mount: {secret.file} holds {of}"

    # -- JSON --------------------------------------------------------------------------------------

    def json(self) -> str:
        """Return the report for programs: every source with every key."""
        return json.dumps(
            {
                "version": _VERSION,
                "summary": {state.value: self.states[state] for state in ImportState},
                "sources": [self._document(manifest) for manifest in self.imported]
                + [
                    {
                        "file": unread.file,
                        "document": unread.document,
                        "line": unread.line,
                        "outcome": ImportState.REFUSED.value,
                        "why": unread.why,
                    }
                    for unread in self.unread
                ],
                "notes": list(self.notes),
                "failures": list(self.failures),
                "secrets": [secret._asdict() for secret in self.secrets],
            },
            indent=2,
        )

    def _document(self, imported: ImportedManifest) -> dict[str, Any]:
        manifest = imported.manifest
        return {
            "file": manifest.file,
            "document": manifest.document,
            "line": self.lines.line(manifest),
            "kind": manifest.kind,
            "namespace": manifest.namespace,
            "name": manifest.name,
            "outcome": imported.state.value,
            "why": imported.why,
            "target": _target(imported) if imported.target else None,
            "keys": [
                {
                    "path": path_of(entry.location),
                    "line": self.lines.line(manifest, entry.location),
                    "outcome": entry.outcome.value,
                    "type": entry.kind,
                    "value": entry.shown,
                    "why": entry.why,
                }
                for entry in imported.entries
            ],
        }


def _place(file: str, line: int | None) -> str:
    return file if line is None else f"{file}:{line}"


def _called(imported: ImportedManifest) -> str:
    manifest = imported.manifest
    name = "/".join(part for part in (manifest.namespace, manifest.name) if part)
    return f"{manifest.kind or 'document'} {name}".rstrip()


def _target(manifest: ImportedManifest) -> str:
    reference = manifest.target.get("scaleTargetRef")
    parts = reference if isinstance(reference, dict) else {}
    return f"{manifest.target.get('namespace')}/{parts.get('kind')}/{parts.get('name')}"
