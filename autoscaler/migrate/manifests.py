"""Kubernetes manifests: the documents of a text, and which of them are autoscalers."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from autoscaler.config.documents import Location
from autoscaler.config.reading import AUTHENTICATIONS, HPA, OF_KEDA, kind_of
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
    """What a document is to an import."""

    AUTOSCALER = "an autoscaler"
    AUTHENTICATION = "how the triggers of ScaledObjects sign in"
    VALUES = "values that a configuration keeps in files"
    OTHER = "anything else; it may hold rules of prometheus-adapter"


@dataclass(frozen=True, eq=False)
class Manifest:
    """One object, and where it stands."""

    fields: Fields
    file: str
    """As messages call it."""
    document: int
    """Its number in the file, from 1."""
    text: bytes = b""
    """The text of its document; empty where there is none, as for an object of the cluster."""
    before: int = 0
    """The lines of the file before that text."""
    at: Location = ()
    """Where it stands in its document, as in a List."""

    @property
    def kind(self) -> str:
        """The kind; what people leave out who copy a `spec` is found out."""
        return kind_of(self.fields.value)

    @property
    def group(self) -> str:
        """The API group, "" for the core group and where no apiVersion is given."""
        return str(self.fields.peek("apiVersion") or "").rpartition("/")[0]

    @property
    def name(self) -> str:
        """What it is called in its metadata."""
        return str(self.fields.peek("metadata", "name") or "")

    @property
    def namespace(self) -> str:
        """The namespace that it names; empty for none."""
        return str(self.fields.peek("metadata", "namespace") or "")

    @property
    def role(self) -> ManifestRole:
        """What it is to an import."""
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
    """Split a text into its documents, with the lines before each; what holds nothing is left out.

    YAML lets no line within a document begin with its marks, so that one that cannot be parsed
    does not hide the others.
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
