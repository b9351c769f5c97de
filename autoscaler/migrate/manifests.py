"""The input of `autoscaler import`: the manifests of files, folders and standard input."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import NamedTuple

import yaml

from autoscaler import clock
from autoscaler.config.documents import TWICE, Location, read
from autoscaler.config.problems import Places, syntax_problem
from autoscaler.config.reading import AUTHENTICATIONS, HPA, OF_KEDA, kind_of, within
from autoscaler.file_contents import NoFileError, TooLargeError, read_bytes
from autoscaler.kubernetes.api import MALFORMED, Api, JsonObject, path_of, read_list
from autoscaler.kubernetes.failures import Failure, in_namespace, malformed
from autoscaler.migrate.fields import Fields

_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_DATA_KEY = re.compile(r"[-._A-Za-z0-9]{1,253}")
_LONGEST_NAME = 253
_BETWEEN = re.compile(rb"^(?:---(?=[ \t\r\n]|\Z)|\.\.\.(?=[ \t\r\n]|\Z)[^\n]*\n?)", re.MULTILINE)
_SOMETHING = re.compile(rb"^[ \t\r]*+[^ \t\r\n#%]", re.MULTILINE)

KEDA_1 = "keda.k8s.io"


class ManifestRole(Enum):
    """The role of a document in an import."""

    AUTOSCALER = "an autoscaler"
    AUTHENTICATION = "how the triggers of ScaledObjects sign in"
    VALUES = "values that a configuration keeps in files"
    OTHER = "anything else; it may hold rules of prometheus-adapter"


@dataclass(frozen=True, eq=False)
class Manifest:
    """One object, and its place."""

    fields: Fields
    file: str
    """The name of its source in messages."""
    document: int
    """Its number in the file, from 1."""
    text: bytes = b""
    """The text of its document; empty for an object of the cluster."""
    before: int = 0
    """The lines of the file before that text."""
    at: Location = ()
    """Its place in its document, such as in a List."""

    @property
    def kind(self) -> str:
        """The kind; for a copied `spec` without one it is inferred."""
        return kind_of(self.fields.value)

    @property
    def group(self) -> str:
        """The API group, "" for the core group and without an apiVersion."""
        return str(self.fields.peek("apiVersion") or "").rpartition("/")[0]

    @property
    def name(self) -> str:
        """Its name in the metadata."""
        return str(self.fields.peek("metadata", "name") or "")

    @property
    def namespace(self) -> str:
        """The namespace in the metadata; empty for none."""
        return str(self.fields.peek("metadata", "namespace") or "")

    @property
    def role(self) -> ManifestRole:
        """Its role in an import."""
        if self.kind == HPA and self.group in {"", "autoscaling", "extensions"}:
            return ManifestRole.AUTOSCALER
        if self.kind in OF_KEDA and self.group in {"", "keda.sh", KEDA_1}:
            return (
                ManifestRole.AUTHENTICATION
                if self.kind in AUTHENTICATIONS
                else ManifestRole.AUTOSCALER
            )
        return (
            ManifestRole.VALUES if self.kind == "Secret" and not self.group else ManifestRole.OTHER
        )


def is_namespace(text: str) -> bool:
    """Return whether Kubernetes permits this name for a namespace (RFC 1123 label)."""
    return _NAMESPACE.fullmatch(text) is not None


def is_object_name(text: str) -> bool:
    """Return whether Kubernetes permits this name for an object (RFC 1123 subdomain)."""
    return len(text) <= _LONGEST_NAME and _NAME.fullmatch(text) is not None


def is_data_key(text: str) -> bool:
    """Return whether Kubernetes permits this key in the data of a Secret or a ConfigMap."""
    return _DATA_KEY.fullmatch(text) is not None and not text.startswith("..") and text != "."


def parts_of(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Split a text into its documents, with the lines before each; empty ones are omitted.

    A YAML document cannot contain a line that begins with a document marker, so one that cannot be
    parsed does not hide the others.
    """
    begin = before = 0
    for mark in (*_BETWEEN.finditer(text), None):
        end = len(text) if mark is None else mark.start()
        part = text[begin:end]
        if _SOMETHING.search(part):
            yield before, part
        next_one = end if mark is None else mark.end()
        before += text.count(b"\n", begin, next_one)
        begin = next_one


STANDARD_INPUT = Path("-")
_SHOWN = "standard input"
_SUFFIXES = {".yaml", ".yml", ".json"}
MOST_OF_A_FILE = 64 * 2**20
"""The most bytes; Helm renders a few million for a whole cluster."""
_MOST_OF_ALL = 256 * 2**20
_MOST_FILES = 50_000
_MOST_DOCUMENTS = 100_000
_TEMPLATE = b"{{"
_OURS = re.compile(
    rb"HorizontalPodAutoscaler|Scaled(?:Object|Job)|TriggerAuth|(?:series|metrics)Query"
)
"""The texts that identify an autoscaler, or a rule of prometheus-adapter."""
A_TEMPLATE = (
    "it is a template, which has to be rendered first: import what `helm template` or your tool "
    "prints"
)


@dataclass(frozen=True)
class UnreadDocument:
    """A file or document that could not be read, and why."""

    file: str
    why: str
    document: int | None = None
    line: int | None = None


@dataclass
class ImportSources:
    """The manifests of all named sources, in order, and what could not be read."""

    manifests: list[Manifest] = field(default_factory=list)
    unread: list[UnreadDocument] = field(default_factory=list)
    _bytes: int = 0
    _in_folder: bool = False
    """Whether the file was found in a folder, which may contain unrelated files."""

    def add(self, names: Sequence[Path]) -> None:
        """Read files, the YAML and JSON files of folders, and `-`, which is standard input."""
        files = 0
        for name in names:
            self._in_folder = name != STANDARD_INPUT and name.is_dir()
            for path in _within(name) if self._in_folder else [name]:
                files += 1
                if files > _MOST_FILES:
                    why = f"more than {_MOST_FILES:,} files: import a part at a time"
                    self.unread.append(UnreadDocument(str(name), why))
                    return
                self._file(path)

    def _file(self, path: Path) -> None:
        shown = _SHOWN if path == STANDARD_INPUT else str(path)
        try:
            text = _standard_input() if path == STANDARD_INPUT else read_bytes(path, MOST_OF_A_FILE)
        except OSError as error:
            self.unread.append(UnreadDocument(shown, _unreadable(error)))
            return
        self._bytes += len(text)
        if self._bytes > _MOST_OF_ALL:
            most = f"{_MOST_OF_ALL // 2**20} MiB together"
            self.unread.append(
                UnreadDocument(shown, f"the files have more than {most}: import fewer")
            )
            return
        self.text(text, shown)

    def text(self, text: bytes, shown: str) -> None:
        """Read the documents of a text; ``shown`` is its name in messages."""
        try:
            text.decode()
        except UnicodeDecodeError as error:
            line = text.count(b"\n", 0, error.start) + 1
            unread = UnreadDocument(shown, "it is not UTF-8; save it as UTF-8", None, line)
            self._leave(unread, text)
            return
        for number, (before, part) in enumerate(parts_of(text.removeprefix(b"\xef\xbb\xbf")), 1):
            if number > _MOST_DOCUMENTS:
                why = f"only the first {_MOST_DOCUMENTS:,} documents of it were read"
                self.unread.append(UnreadDocument(shown, why, number, before + 1))
                return
            self._document(part, shown, number, before)

    def _leave(self, unread: UnreadDocument, text: bytes) -> None:
        """Note what cannot be read; in a folder only if it mentions something that is imported."""
        if not self._in_folder or _OURS.search(text):
            self.unread.append(unread)
        else:
            number = unread.document or 1
            self.manifests.append(Manifest(Fields(None), unread.file, number))

    def _document(self, part: bytes, shown: str, number: int, before: int) -> None:
        faults: list[tuple[Location, int, str]] = []
        try:
            value = read(part, lambda *fault: faults.append(fault))
        except yaml.YAMLError as error:
            problem = syntax_problem(error, shown, part)
            line = before + (problem.line or 1)
            why = A_TEMPLATE if _TEMPLATE in part else problem.message
            self._leave(UnreadDocument(shown, why, number, line), part)
            return
        broken = next((fault for fault in faults if fault[2] != TWICE), None)
        if broken is not None:
            _, line, why = broken
            why = A_TEMPLATE if _TEMPLATE in part else why
            self._leave(UnreadDocument(shown, why, number, before + line), part)
            return
        if value is None:
            return
        for at, item in within(value):
            manifest = Manifest(Fields(item), shown, number, part, before, at)
            for location, _, why in faults:
                if location[: len(at)] == at:
                    manifest.fields.refused(*location[len(at) :], why=why)
            self.manifests.append(manifest)


def _within(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and of those in it, by name; hidden ones are left out."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for name in sorted(names):
            if Path(name).suffix.lower() in _SUFFIXES and not name.startswith("."):
                yield Path(place, name)


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise OSError("it is closed")
    if sys.stdin.isatty():
        print("reading standard input; Ctrl-D ends it", file=sys.stderr)
    text = sys.stdin.buffer.read(MOST_OF_A_FILE + 1)
    if len(text) > MOST_OF_A_FILE:
        raise TooLargeError(STANDARD_INPUT, MOST_OF_A_FILE)
    return text


def _unreadable(error: OSError) -> str:
    reasons = {
        FileNotFoundError: "there is no such file",
        PermissionError: "this user may not read it",
        NoFileError: f"{error.strerror}; `-` reads standard input",
    }
    return reasons.get(type(error), f"it cannot be read: {error.strerror or error}")


class Lines:
    """Finds the lines of keys in the documents of manifests."""

    def __init__(self) -> None:
        self._last: tuple[bytes, Places] | None = None

    def line(self, manifest: Manifest, location: Location = ()) -> int | None:
        """Return the line of a key in its file, from 1; None without a text."""
        if not manifest.text:
            return None
        if self._last is None or self._last[0] is not manifest.text:
            self._last = (manifest.text, Places(manifest.text))
        return manifest.before + self._last[1][(*manifest.at, *location)].line


# -- manifests of a cluster ------------------------------------------------------------------------


_PAGE = 500
_SECONDS = 30.0
"""The time limit of one list, in seconds."""
_NOT_FOUND = 404
_LABELS = (
    "app.kubernetes.io/name in (prometheus-adapter,k8s-prometheus-adapter)",
    "app in (prometheus-adapter,k8s-prometheus-adapter,custom-metrics-apiserver)",
)
_NAMES = ("adapter-config", "prometheus-adapter", "prometheus-adapter-config")
_SEARCHES = (
    *({"labelSelector": labels} for labels in _LABELS),
    *({"fieldSelector": f"metadata.name={name}"} for name in _NAMES),
)
"""The labels of prometheus-adapter's ConfigMap, in its charts and manifests."""
_USUAL_NAMESPACES = ("monitoring", "custom-metrics", "prometheus", "kube-system")
_SEARCHED = (
    f"no rules of prometheus-adapter were found: a ConfigMap with the name {' or '.join(_NAMES)}, "
    f"or with the label {' or '.join(_LABELS)}, was searched in {{}}: give its file with "
    "--adapter-rules"
)


class Collection(NamedTuple):
    """A kind of object, and its path in the API."""

    group_version: str
    plural: str
    kind: str
    namespaced: bool = True


COLLECTIONS = (
    Collection("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Collection("keda.sh/v1alpha1", "scaledobjects", "ScaledObject"),
    Collection("keda.sh/v1alpha1", "scaledjobs", "ScaledJob"),
    Collection("keda.sh/v1alpha1", "triggerauthentications", "TriggerAuthentication"),
    Collection(
        *("keda.sh/v1alpha1", "clustertriggerauthentications", "ClusterTriggerAuthentication"),
        namespaced=False,
    ),
)


_CONFIG_MAPS = Collection("v1", "configmaps", "ConfigMap")


class ClusterManifests:
    """Reads objects of the cluster, of one namespace or of all."""

    def __init__(self, api: Api, namespace: str = "") -> None:
        self._api = api
        self._namespace = namespace
        self.failures: list[str] = []
        """The failures of reads, as sentences; an unknown kind is not a failure."""
        self.searched = ""
        """A sentence about where rules of prometheus-adapter were searched."""

    def autoscalers(self) -> Iterator[JsonObject]:
        """Yield HorizontalPodAutoscalers except those by KEDA, and the objects of KEDA."""
        for collection in COLLECTIONS:
            namespace = self._namespace if collection.namespaced else ""
            for item in self._listed(collection, namespace):
                if not _is_of_keda(item):
                    yield item

    def adapter_rules(self) -> Iterator[JsonObject]:
        """Yield the ConfigMaps that may contain rules of prometheus-adapter, wherever it runs."""
        items: list[JsonObject] = []
        readable: list[str] = []
        everywhere = not isinstance(self._pages(_CONFIG_MAPS, "", _SEARCHES[0]), Failure)
        others = [""] if everywhere else dict.fromkeys((self._namespace, *_USUAL_NAMESPACES))
        for place in others:
            pages = [self._pages(_CONFIG_MAPS, place, query) for query in _SEARCHES]
            found = [page for page in pages if not isinstance(page, Failure)]
            readable += [place] if found else []
            items += [item for page in found for item in page]
        places = "all namespaces" if everywhere else ", ".join(filter(None, readable))
        self.searched = _SEARCHED.format(places or "no namespace that this user may read")
        yield from {_key_of(item): item for item in items}.values()

    def _listed(self, of: Collection, namespace: str) -> Sequence[JsonObject]:
        """Return the objects of a collection, or the failure."""
        items = self._pages(of, namespace, {})
        if isinstance(items, Failure):
            if items.status != _NOT_FOUND:
                self.failures.append(in_namespace(items, namespace))
            return []
        return items

    def _pages(
        self, of: Collection, namespace: str, query: dict[str, str]
    ) -> list[JsonObject] | Failure:
        """Return the objects of a collection, as `kubectl get -o yaml` shows them."""
        path = path_of(of.group_version, of.plural, namespace)
        items: list[JsonObject] = []
        deadline = clock.monotonic() + _SECONDS

        def get(more: dict[str, str]) -> JsonObject | Failure:
            return self._api.get(path, deadline, more)

        def add(page: list[JsonObject]) -> None:
            items.extend({"apiVersion": of.group_version, "kind": of.kind, **item} for item in page)

        try:
            answer = read_list(get, add, query, _PAGE)
        except MALFORMED:
            answer = malformed(self._api.server, of.plural)
        return answer if isinstance(answer, Failure) else items


def _key_of(item: JsonObject) -> tuple[str, str]:
    return item["metadata"].get("namespace", ""), item["metadata"].get("name", "")


def _is_of_keda(item: JsonObject) -> bool:
    """Return whether KEDA created an HPA: its ScaledObject is imported instead."""
    owners = item["metadata"].get("ownerReferences") or []
    kinds = (owner.get("kind") for owner in owners if isinstance(owner, dict))
    return "ScaledObject" in kinds and item.get("kind") == "HorizontalPodAutoscaler"
