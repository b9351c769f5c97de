"""The rules of the main file that tie fields together, and the files that it names."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from autoscaler.config.document import child
from autoscaler.config.problems import Finding
from autoscaler.file_contents import kind_of

_FILES: tuple[tuple[str, ...], ...] = (
    ("prometheus", "bearerTokenFile"),
    ("prometheus", "basicAuth", "passwordFile"),
    ("prometheus", "tls", "caFile"),
    ("prometheus", "tls", "certFile"),
    ("prometheus", "tls", "keyFile"),
    ("kubernetes", "kubeconfig"),
)


def document_findings(document: object, folder: Path) -> Iterator[Finding]:
    """Check the main file but for its queries and targets.

    ``folder`` is where relative file names begin.
    """
    yield from _credentials(child(document, "prometheus"))
    yield from _files(document, folder)
    if child(document, "targets") is None and not child(document, "include"):
        yield Finding(
            ("targets",),
            "is missing: the workloads to scale; or `include` the files that hold them",
            show_value=False,
            missing=(("targets",), ("include",)),
        )


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
    except (RuntimeError, ValueError):
        return path


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
    for keys, _, fault in _faulty(document, folder):
        yield Finding(keys, fault, show_value=False)


def unusable_files(document: object, folder: Path) -> list[Path]:
    """Return the files that the document names and that cannot be used, as they may be later."""
    return [path for _, path, _ in _faulty(document, folder)]


def _faulty(document: object, folder: Path) -> Iterator[tuple[tuple[str, ...], Path, str]]:
    """Yield the place, the path and the fault of each."""
    for keys in _FILES:
        name = child(document, *keys)
        if isinstance(name, str) and name.strip():
            path = absolute(name, folder)
            fault = _fault_of(name, path)
            if fault is not None:
                yield keys, path, fault


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
    other = kind_of(mode)
    if other is not None:
        return f"must name a file, and {shown} is {other}"
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
