"""Manifests of KEDA, converted as `autoscaler import` does it, and what came of them."""

import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from autoscaler.config import load
from autoscaler.documents import documents, path_of
from autoscaler.importers.configuration import configuration_of
from autoscaler.importers.conversion import Conversion, Options, convert
from autoscaler.importers.fields import Fields, KeyOutcome
from autoscaler.importers.manifests import Manifest

HEAD = """\
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: orders, namespace: shop}
"""
REF = "scaleTargetRef: {name: order-worker}\n"
TARGET = {
    "namespace": "shop",
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "order-worker"},
}
"""How a target begins that `scaled_object` becomes."""


def scaled_object(spec: str, reference: str = REF) -> str:
    """Return a ScaledObject with a spec, in which the reference need not stand."""
    body = textwrap.indent(reference + textwrap.dedent(spec), "  ")
    return f"{HEAD}spec:\n{body}"


def prometheus(metadata: str = "", beside: str = "", *, query: str = "sum(orders_waiting)") -> str:
    """Return triggers: one of type prometheus, with further metadata and keys beside it."""
    keys = f"serverAddress: http://prometheus:9090, query: '{query}', threshold: \"30\""
    return f"triggers:\n- {{type: prometheus, metadata: {{{keys}{metadata}}}{beside}}}\n"


@dataclass(frozen=True)
class Import:
    """What an import made."""

    conversion: Conversion
    text: str

    @property
    def configuration(self) -> dict[str, Any]:
        """The configuration as plain data."""
        return dict(yaml.safe_load(self.text))

    @property
    def target(self) -> dict[str, Any]:
        """The only target of the configuration."""
        (target,) = self.configuration["targets"]
        return dict(target)

    def said(self, outcome: KeyOutcome) -> dict[str, str]:
        """Return the sentences of one outcome, by path, of all manifests."""
        return {
            path_of(entry.location): entry.why
            for one in self.conversion.imported
            for entry in one.entries
            if entry.outcome is outcome
        }

    @property
    def refusals(self) -> list[str]:
        """Why manifests were refused as a whole."""
        return [one.why for one in self.conversion.imported if one.state.value == "refused"]


def imported(*texts: str, options: Options | None = None) -> Import:
    """Convert the documents of some texts."""
    manifests = [
        Manifest(Fields(document.value), "test", number)
        for number, document in enumerate(documents("---\n".join(texts)), 1)
    ]
    conversion = convert(manifests, options or Options())
    return Import(conversion, configuration_of(conversion, conversion.written).text)


def loaded(result: Import, folder: Path) -> None:
    """Load the configuration as the daemon does, with a file for each secret; raises if wrong."""
    for one in result.conversion.written:
        for secret in one.draft.secrets:
            file = folder / secret.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("secret")
    path = folder / "autoscaler.yaml"
    path.write_text(result.text)
    load(path)
