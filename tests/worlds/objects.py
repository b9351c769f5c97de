"""PromqlAutoscaler objects on the real control plane: their kind, and what teams do with them."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import yaml

from autoscaler.config.objects import API_VERSION, GROUP, KIND, PLURAL
from tests.worlds.controlplane.api import Api, ApiError, Json
from tests.worlds.service_account import MANIFESTS, Rule
from tests.worlds.waiting import wait_until
from tests.worlds.world import World

COMPONENT = MANIFESTS / "components" / "objects"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CRD = f"{_CRDS}/{PLURAL}.{GROUP}"


def definition() -> Json:
    """Return the CustomResourceDefinition."""
    found: Json = yaml.safe_load((COMPONENT / "crd.yaml").read_text())
    return found


def rights_to_objects(rules: list[Rule]) -> list[Rule]:
    """Add the rights of the component to the rules of a role for targets."""
    documents = yaml.safe_load_all((COMPONENT / "clusterrole.yaml").read_text())
    return [*rules, *(rule for document in documents for rule in document["rules"])]


def install(api: Api) -> None:
    """Create the kind if it is missing, and wait until it is served."""
    with suppress(ApiError):
        api.create(_CRDS, definition())
    wait_until("the kind", lambda: _is_served(api))


def uninstall(api: Api) -> None:
    """Delete the kind with all objects."""
    api.delete(_CRD)
    wait_until("the kind is gone", lambda: not _is_served(api))


def _is_served(api: Api) -> bool:
    return api.respond("GET", f"/apis/{API_VERSION}/{PLURAL}").status_code == 200


@dataclass
class Team:
    """What a team does in its own namespace, with the rights of ``world.api``."""

    world: World
    namespace: str

    def path(self, name: str = "") -> str:
        collection = f"/apis/{API_VERSION}/namespaces/{self.namespace}/{PLURAL}"
        return f"{collection}/{name}" if name else collection

    def spec(self, name: str, promql: str | None = None, **more: object) -> Json:
        """Return a spec of the demand of this namespace, for the Deployment of that name."""
        query = self.world.metric if promql is None else promql
        metric = {"name": "demand", "query": {"query": query}}
        target = {"type": "AverageValue", "averageValue": 1}
        return {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "maxReplicas": 10,
            "metrics": [{"type": "External", "external": {"metric": metric, "target": target}}],
            **more,
        }

    def create(self, name: str, spec: Mapping[str, Any] | None = None) -> Json:
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": dict(self.spec(name) if spec is None else spec),
        }
        found: Json = self.world.api.create(self.path(), body)
        return found

    def patch(self, name: str, **spec: object) -> None:
        self.world.api.patch(self.path(name), {"spec": spec})

    def delete(self, name: str) -> None:
        self.world.api.delete(self.path(name))

    def status(self, name: str) -> Json:
        found: Json = self.world.api.get(self.path(name)).get("status") or {}
        return found

    def condition(self, name: str, type_: str = "Ready") -> Json:
        conditions = self.status(name).get("conditions") or ()
        return next((each for each in conditions if each["type"] == type_), {})

    def wait_ready(self, name: str, status: str, reason: str | None = None) -> Json:
        """Wait for the condition Ready, and return it."""

        def ready_condition() -> Json | None:
            ready = self.condition(name)
            right = ready.get("status") == status and reason in {None, ready.get("reason")}
            return ready if right else None

        return wait_until(f"{name} ready: {status} {reason}", ready_condition) or {}

    def want(self, replicas: float) -> None:
        """Set the demand of this namespace."""
        labels = {"namespace": self.namespace}
        self.world.exporter.set(self.world.metric, labels, replicas)
        selector = f'{self.world.metric}{{namespace="{self.namespace}"}}'
        self.world.prometheus.wait_for(f"{selector} == {replicas}")


@contextmanager
def other_namespace(world: World) -> Iterator[str]:
    """Create a namespace for another team."""
    name = f"{world.namespace}-other"
    world.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"team": "b"}}})
    yield name
    world.api.delete(f"/api/v1/namespaces/{name}")


@contextmanager
def team_account(world: World, namespace: str) -> Iterator[Team]:
    """Give a team with the role `edit` in a namespace, and with no other right."""
    api, rbac = world.api, "/apis/rbac.authorization.k8s.io/v1"
    roles = [*yaml.safe_load_all((COMPONENT / "aggregated.yaml").read_text())]
    for role in roles:
        with suppress(ApiError):
            api.create(f"{rbac}/clusterroles", role)
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.create(accounts, {"metadata": {"name": "team"}})
    subject = {"kind": "ServiceAccount", "name": "team", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    binding = {"metadata": {"name": "team"}, "roleRef": role, "subjects": [subject]}
    api.create(f"{rbac}/namespaces/{namespace}/rolebindings", binding)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = api.create(f"{accounts}/team/token", request)["status"]["token"]
    with world.plane.api(token) as own:
        yield Team(dataclasses.replace(world, api=own), namespace)
