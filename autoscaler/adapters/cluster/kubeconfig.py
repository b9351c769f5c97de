"""A kubeconfig, checked before the client reads it, so that a mistake becomes a sentence."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import yaml
from kubernetes.config.config_exception import ConfigException
from kubernetes.config.kube_config import ConfigNode, KubeConfigMerger

from autoscaler.adapters.cluster import exec_plugin
from autoscaler.file_contents import MOST_OF_CREDENTIALS, read_bytes


class ConnectError(Exception):
    """No API server can be found; the message says why and what would be right."""


@contextmanager
def quiet_client() -> Iterator[None]:
    """Drop what the client logs while it reads a kubeconfig or runs its exec plugin.

    It logs what the plugin printed with `logging.error`, which writes to stderr if logging is not
    set up, and even sets it up.  A sentence of ours reports the fault instead.
    """
    root = logging.getLogger()
    # With a handler logging does not set itself up.
    handler = logging.NullHandler()
    # An instance for each use: several threads may be here.
    others = _NotTheClient()
    root.addHandler(handler)
    root.addFilter(others)
    try:
        yield
    finally:
        root.removeFilter(others)
        root.removeHandler(handler)


class _NotTheClient(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.module != "kube_config"


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The merged files and the context that is used.  It may hold credentials: it has no repr."""

    merged: ConfigNode
    context: str
    origin: str
    """A name for messages: the context and the files."""
    token_file: Path | None
    has_exec_plugin: bool
    asks_elsewhere: bool
    """Whether a program or a server gives the credentials, which may take long."""
    secrets: tuple[tuple[str, Path], ...]
    """Files that hold credentials: the kubeconfigs, and those that the context's user names."""
    url: str
    """That of the server."""
    verified: bool
    """Whether the certificate of the server is verified."""

    def __repr__(self) -> str:
        return f"Kubeconfig({self.origin})"

    @classmethod
    def read(cls, paths: list[Path], context: str | None) -> "Kubeconfig":
        """Read and merge the files; at least one must exist.

        The time of an exec plugin is limited to `exec_plugin.SECONDS`.  Raises ConnectError.
        """
        names = ":".join(str(path) for path in paths)
        merged = _merge(paths, names)
        chosen = _context(merged, context, names)
        origin = f'context "{chosen}" of {names}'
        entry = _entry(merged, "contexts", chosen, "context", origin)
        cluster_name = _text(entry, "cluster")
        cluster = _entry(merged, "clusters", cluster_name, "cluster", origin)
        url = _text(cluster, "server")
        if not url:
            raise ConnectError(f'{origin} cannot be used: cluster "{cluster_name}" has no server')
        if not _is_url(url):
            # Not quoted: it may hold a password.
            raise ConnectError(
                f'{origin} cannot be used: the server of cluster "{cluster_name}" is no URL; '
                "right is https://, a host and maybe a port"
            )
        user_name = _text(entry, "user")
        user = _entry(merged, "users", user_name, "user", origin) if user_name else {}
        plugin = user.get("exec")
        if isinstance(plugin, dict):
            user["exec"] = exec_plugin.limited(plugin)
        files = {key: _file(merged, user_name, user, key) for key in ("client-key", "tokenFile")}
        named = [(f"{key} of {origin}", path) for key, path in files.items() if path]
        return cls(
            merged,
            chosen,
            origin,
            files["tokenFile"],  # it wins over `token`, as it does for kubectl
            has_exec_plugin="exec" in user,
            asks_elsewhere="exec" in user or "auth-provider" in user,
            secrets=(*(("kubeconfig", path) for path in paths), *named),
            url=url,
            verified=not cluster.get("insecure-skip-tls-verify"),
        )


def _merge(paths: list[Path], names: str) -> ConfigNode:
    existing = [path for path in paths if path.exists()]
    if not existing:
        raise ConnectError(f"there is no kubeconfig at {names}")
    for path in existing:
        _check_form(path)
    joined = ":".join(str(path) for path in existing)
    try:
        # It reads the files again, and they may have changed meanwhile.
        merger = KubeConfigMerger(joined)  # type: ignore[no-untyped-call] # the client is half typed
        merged: ConfigNode | None = merger.config
    except (OSError, ValueError, TypeError, yaml.YAMLError, ConfigException):
        merged = None
    if merged is None:
        raise ConnectError(f"the kubeconfig {names} changed while it was read")
    return merged


def _check_form(path: Path) -> None:
    """Refuse a file that is no kubeconfig, without quoting from it."""
    try:
        text = read_bytes(path, MOST_OF_CREDENTIALS).decode("utf-8")
        document = yaml.safe_load(text)
    except OSError as error:
        raise ConnectError(f"the kubeconfig {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConnectError(f"the kubeconfig {path} is not text in UTF-8") from None
    except yaml.MarkedYAMLError as error:
        line = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        # All other errors quote the names of anchors and tags, which may be secrets.
        told = isinstance(error, yaml.scanner.ScannerError | yaml.parser.ParserError)
        problem = f": {error.problem}{line}" if told else line
        raise ConnectError(f"the kubeconfig {path} is not YAML{problem}") from None
    except (yaml.YAMLError, ValueError):  # a ValueError for a date that does not exist
        raise ConnectError(f"the kubeconfig {path} is not YAML") from None
    except RecursionError:
        raise ConnectError(f"the kubeconfig {path} is nested too deeply") from None
    if not isinstance(document, dict):
        raise ConnectError(f"the kubeconfig {path} is empty or not a mapping of kind Config")
    for section in ("clusters", "contexts", "users"):
        for entry in _entries(document.get(section), path, section):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise ConnectError(f"the kubeconfig {path} has an entry without name in {section}")


def _entries(section: object, path: Path, name: str) -> list[object]:
    if section is None:
        return []
    if not isinstance(section, list):
        raise ConnectError(f"the kubeconfig {path} is not valid: {name} must be a list")
    return section


def _context(merged: ConfigNode, context: str | None, names: str) -> str:
    known = [_name(entry) for entry in merged.value.get("contexts", [])]
    chosen = context or merged.value.get("current-context")
    listed = ", ".join(known) or "none"
    if not chosen:
        raise ConnectError(
            f"{names} sets no current-context; name one by kubernetes.context ({listed})"
        )
    if chosen not in known:
        raise ConnectError(f'{names} has no context "{chosen}"; it has: {listed}')
    return str(chosen)


def _entry(merged: ConfigNode, section: str, name: str, key: str, origin: str) -> dict[str, object]:
    for entry in merged.value.get(section, []):
        if _name(entry) == name:
            content = entry.value.get(key)
            if isinstance(content, dict):
                return content
            raise ConnectError(f'{origin} cannot be used: "{name}" of {section} has no {key}')
    raise ConnectError(f'{origin} cannot be used: it names "{name}", which is not in {section}')


def _name(entry: ConfigNode) -> str:
    return cast("str", entry.value["name"])


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _text(entry: dict[str, object], key: str) -> str:
    value = entry.get(key)
    return value if isinstance(value, str) else ""


def _file(merged: ConfigNode, user_name: str, user: dict[str, object], key: str) -> Path | None:
    """Return a file that a user's entry names, relative to the folder of its kubeconfig."""
    name = _text(user, key)
    if not name:
        return None
    node = next(node for node in merged.value["users"] if _name(node) == user_name)
    return Path(node.path).parent / name
