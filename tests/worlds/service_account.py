"""The service account of config/kubernetes, with the rights of its manifests and no others."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from tests.worlds.controlplane.api import Api, Json

MANIFESTS = Path(__file__).parents[2] / "config" / "kubernetes"
ACCOUNT = "autoscaler"

Rule = dict[str, Any]


class Rights(StrEnum):
    CLUSTER = "cluster"
    """The rights of the base: a ClusterRole."""
    NAMESPACED = "namespaced"
    """The rights of the variant: a Role in the namespace of the targets."""
    READING = "reading"
    """The rights of the base without watches: objects are read instead."""


_FILES = {
    Rights.CLUSTER: ("base/clusterrole", "base/clusterrolebinding"),
    Rights.NAMESPACED: ("namespaced/shop/role", "namespaced/shop/rolebinding"),
}
_FILES[Rights.READING] = _FILES[Rights.CLUSTER]
_ALWAYS = ("base/serviceaccount", "base/role", "base/rolebinding")
_PLURALS = {"ServiceAccount": "/api/v1/{}serviceaccounts"} | {
    kind: f"/apis/rbac.authorization.k8s.io/v1/{{}}{kind.lower()}s"
    for kind in ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
}


def manifest(name: str) -> Json:
    """Return the one object in a file of config/kubernetes, by its path without the suffix."""
    found: Json = yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())
    return found


def target_rules() -> list[Rule]:
    """Return the rules of what the daemon may do where its targets are."""
    rules: list[Rule] = manifest("base/clusterrole")["rules"]
    return rules


def one_by_one(rules: list[Rule]) -> list[Rule]:
    """Return rules that allow the same, each one verb on one resource."""
    return [
        {**rule, "resources": [resource], "verbs": [verb]}
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


@contextmanager
def service_account(
    api: Api,
    namespace: str,
    rights: Rights = Rights.CLUSTER,
    change: Callable[[list[Rule]], list[Rule]] = lambda rules: rules,
) -> Iterator[str]:
    """Create the account with its rights in a namespace, and give its token.

    ``change`` makes other rules of those of each role.  What belongs to no namespace is deleted at
    the end.
    """
    cluster_wide: list[str] = []
    try:
        for name in (*_ALWAYS, *_FILES[rights]):
            found = _placed(manifest(name), namespace)
            if "rules" in found:
                found["rules"] = change(found["rules"])
                if rights is Rights.READING:
                    rules = one_by_one(found["rules"])
                    found["rules"] = [rule for rule in rules if rule["verbs"] != ["watch"]]
            of_namespace = "namespace" in found["metadata"]
            path = _PLURALS[found["kind"]].format(f"namespaces/{namespace}/" * of_namespace)
            api.create(path, found)
            if not of_namespace:
                cluster_wide.append(f"{path}/{found['metadata']['name']}")
        yield token_of(api, namespace)
    finally:
        for path in cluster_wide:
            api.delete(path)


def _placed(found: Json, namespace: str) -> Json:
    """Return the object as it is in that namespace; names of the whole cluster get a suffix."""
    found = copy.deepcopy(found)
    if found["kind"].startswith("Cluster"):
        found["metadata"]["name"] += f"-{namespace}"
    else:
        found["metadata"]["namespace"] = namespace
    if found.get("roleRef", {}).get("kind") == "ClusterRole":
        found["roleRef"]["name"] += f"-{namespace}"
    for subject in found.get("subjects", ()):
        subject["namespace"] = namespace
    return found


def token_of(api: Api, namespace: str) -> str:
    """Return a token of the account in a namespace, for longer than any test or benchmark."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    request: Json = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    request["spec"] = {"expirationSeconds": 86400}
    token: str = api.create(path, request)["status"]["token"]
    return token
