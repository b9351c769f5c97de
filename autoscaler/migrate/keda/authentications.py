"""TriggerAuthentications and ClusterTriggerAuthentications of KEDA: the parameters of triggers.

A value of a Secret becomes a file; its content is never read.
https://keda.sh/docs/latest/concepts/authentication/
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from autoscaler.core.text import printable
from autoscaler.migrate.drafts import SecretValue
from autoscaler.migrate.fields import Fields, items_of
from autoscaler.migrate.manifests import is_data_key, is_namespace, is_object_name

NAMESPACED, CLUSTER = "TriggerAuthentication", "ClusterTriggerAuthentication"
_OF_CLUSTER = "keda"
"""The namespace of the Secrets of a ClusterTriggerAuthentication, by KEDA's default."""

_REFERENCES: tuple[tuple[Literal["Secret", "ConfigMap"], str], ...] = (
    ("Secret", "secretTargetRef"),
    ("ConfigMap", "configMapTargetRef"),
)
_STORES = {
    "hashiCorpVault": "HashiCorp Vault",
    "azureKeyVault": "Azure Key Vault",
    "gcpSecretManager": "Google Secret Manager",
    "awsSecretManager": "AWS Secrets Manager",
    "env": "the environment of the workload",
    "boundServiceAccountToken": "a token of a service account",
    "filePath": "a file of KEDA's operator",
}
_LONGEST_ORIGIN = 600
_NOT_NEEDED = "no trigger that is carried over needs it"
_NOT_NAMED = "no ScaledObject here names it"


class Parameter(NamedTuple):
    """A parameter that an authentication passes to a trigger."""

    name: str
    file: SecretValue | None
    """The file that it becomes; None for another store."""
    origin: str
    """Its source, for a sentence."""


class Authentication:
    """One document, with its used keys."""

    def __init__(self, fields: Fields, namespace: str) -> None:
        self._fields = fields
        self._namespace = namespace
        self._parameters = {
            secret_entry.name: (keys, secret_entry) for keys, secret_entry in self._listed()
        }
        self.identity = fields.within("spec", "podIdentity")

    def parameter(self, name: str) -> Parameter | None:
        """Return a parameter by its name, and note that it is used."""
        keys, found = self._parameters.get(name, ((), None))
        if found is not None and found.file is not None:
            self._fields.carried(*keys)
        elif found is not None:
            why = f"`{name}` comes from {found.origin}: write it to a file, and name that instead"
            self._fields.refused(*keys, why=why)
        return found

    def account(self, why: str) -> None:
        """Explain why unused keys need no counterpart."""
        said = {entry.location[:3] for entry in self._fields.entries()}
        for key, value in self._fields.within("spec").value.items():
            places = {("spec", key, place) for place, _ in items_of(value)}
            if not places & said and ("spec", key) not in said:
                self._fields.ignored("spec", key, why=why)
            elif ("spec", key) not in said:
                for place in sorted(places - said, key=str):
                    self._fields.ignored(*place, why=why)

    def _listed(self) -> Iterator[tuple[tuple[str | int, ...], Parameter]]:
        for kind, key in _REFERENCES:
            for index, secret_entry in enumerate(self._fields.each("spec", key)):
                parameter, name, entry = (
                    secret_entry.peek(field) for field in ("parameter", "name", "key")
                )
                if isinstance(parameter, str) and isinstance(name, str) and isinstance(entry, str):
                    # The names are part of a path: names that Kubernetes refuses are ignored.
                    is_valid = is_namespace(self._namespace) and is_object_name(name)
                    file, what = None, f"{kind} {self._namespace}/{name}"
                    if is_valid and is_data_key(entry):
                        path = f"secrets/{self._namespace}/{name}/{entry}"
                        file = SecretValue(path, self._namespace, name, entry, kind)
                    else:
                        what = printable(f"{what}, which is not a valid name", _LONGEST_ORIGIN)
                    origin = f"key {printable(entry, _LONGEST_ORIGIN)} of {what}"
                    yield ("spec", key, index), Parameter(parameter, file, origin)
        for store, origin in _STORES.items():
            within = self._fields.within("spec", store)
            listed = within.each("secrets") if within.value else self._fields.each("spec", store)
            for secret_entry in listed:
                parameter = secret_entry.peek("parameter")
                if isinstance(parameter, str):
                    yield ("spec", store), Parameter(parameter, None, origin)


class Authentications:
    """The documents of all sources, by kind, namespace and name."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, str, str], Authentication] = {}
        self._named: set[tuple[str, str, str]] = set()

    def add(self, fields: Fields, namespace: str = "default") -> None:
        """Add a document; the namespace applies if it names none."""
        kind, name = fields.peek("kind"), fields.peek("metadata", "name")
        written = str(fields.peek("metadata", "namespace") or namespace)
        of_secrets = _OF_CLUSTER if kind == CLUSTER else written
        key = (str(kind), "" if kind == CLUSTER else written, str(name))
        self._all[key] = Authentication(fields, of_secrets)

    def find(self, reference: Fields, namespace: str) -> Authentication | None:
        """Return what an `authenticationRef` of a namespace names."""
        kind = str(reference.peek("kind") or NAMESPACED)
        key = (kind, "" if kind == CLUSTER else namespace, str(reference.peek("name")))
        if key in self._all:
            self._named.add(key)
        return self._all.get(key)

    def account(self) -> None:
        """Explain unused keys of the documents, after all ScaledObjects are converted."""
        for key, authentication in self._all.items():
            authentication.account(_NOT_NEEDED if key in self._named else _NOT_NAMED)
