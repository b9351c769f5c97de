"""The rules of the whole document that tie fields together, and the files that it names."""

import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from autoscaler.config.document import child
from autoscaler.config.problems import Finding, Location, path_of
from autoscaler.config.resource_queries import DEFAULTS
from autoscaler.config.spec_rules import entries, query_findings, spec_findings

_FILES: tuple[tuple[str, ...], ...] = (
    ("prometheus", "bearerTokenFile"),
    ("prometheus", "basicAuth", "passwordFile"),
    ("prometheus", "tls", "caFile"),
    ("prometheus", "tls", "certFile"),
    ("prometheus", "tls", "keyFile"),
    ("kubernetes", "kubeconfig"),
)


def document_findings(document: object, folder: Path) -> Iterator[Finding]:
    """Check the document; ``folder`` is where its relative file names begin."""
    yield from _credentials(child(document, "prometheus"))
    yield from _files(document, folder)
    names = _keys(document, "queries")
    resources = _keys(document, "resourceQueries") | DEFAULTS.keys()
    seen: dict[tuple[str, ...], Location] = {}
    for index, target in entries(document, "targets"):
        location: Location = ("targets", index)
        yield from spec_findings(target, location)
        yield from query_findings(target, location, names, resources)
        yield from _duplicate(target, location, seen)


def absolute(name: str, folder: Path) -> Path:
    """Resolve a file name of the configuration: ``~`` is the user's home."""
    path = Path(name)
    if name.startswith("~"):
        # Where no home is known the name stays as it is, and is then reported as missing.
        path = _expanded(path)
    return folder / path


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _keys(document: object, key: str) -> set[str]:
    mapping = child(document, key)
    return set(mapping) if isinstance(mapping, Mapping) else set()


def _credentials(prometheus: object) -> Iterator[Finding]:
    if child(prometheus, "bearerTokenFile") and child(prometheus, "basicAuth"):
        yield Finding(
            ("prometheus", "basicAuth"),
            "cannot be used together with bearerTokenFile: a request carries one Authorization; "
            "keep one of the two",
            show_value=False,
        )
    for given, other in (("certFile", "keyFile"), ("keyFile", "certFile")):
        if child(prometheus, "tls", given) and not child(prometheus, "tls", other):
            yield Finding(
                ("prometheus", "tls", given),
                f"needs {other} beside it (the same file, if it holds both)",
                show_value=False,
            )


def _files(document: object, folder: Path) -> Iterator[Finding]:
    for keys in _FILES:
        name = child(document, *keys)
        if isinstance(name, str) and name.strip():
            fault = _fault_of(name, absolute(name, folder))
            if fault is not None:
                yield Finding(keys, fault, show_value=False)


def _fault_of(name: str, path: Path) -> str | None:
    # A secret that was written where its file's name belongs must not reach the error text.
    shown = str(path) if _reads_as_path(name, path) else f"of that name in {path.parent}"
    try:
        mode = path.stat().st_mode
        allowed = os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)
    except PermissionError:
        mode, allowed = 0, False
    except (FileNotFoundError, NotADirectoryError):
        return f"must name a file, and there is no file {shown}"
    except (OSError, ValueError):
        return "must name a file that can be read"
    if stat.S_ISDIR(mode):
        return f"must name a file, and {shown} is a folder"
    if not allowed:
        return f"must name a file that this user may read: permission denied for {shown}"
    return None


def _reads_as_path(name: str, path: Path) -> bool:
    if len(name) > 200:
        return False
    if name.startswith(("/", "./", "../", "~/")):
        return True
    try:
        return path.exists() or ("/" in name and path.parent.is_dir())
    except (OSError, ValueError):
        return False


def _duplicate(
    target: object, location: Location, seen: dict[tuple[str, ...], Location]
) -> Iterator[Finding]:
    version = child(target, "scaleTargetRef", "apiVersion")
    group = version.rpartition("/")[0] if isinstance(version, str) else ""
    parts = (
        child(target, "namespace"),
        child(target, "scaleTargetRef", "kind"),
        child(target, "scaleTargetRef", "name"),
    )
    names = [part for part in parts if isinstance(part, str)]
    if len(names) < len(parts):
        return
    first = seen.setdefault((group, *names), location)
    if first != location:
        namespace, kind, name = names
        yield Finding(
            location,
            f"scales {kind} {name} in {namespace}, as {path_of(first)} does: a workload has one "
            "target; put the metrics of both into one",
            show_value=False,
        )
