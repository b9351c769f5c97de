"""The rights that the election needs, and what operators are told where one is missing."""

from collections.abc import Callable
from itertools import groupby

import pytest

from autoscaler.daemon.leadership import Leadership, Role
from tests.controlplane.api import Api, Json
from tests.controlplane.waiting import wait_until
from tests.daemon.leadership.conftest import QUICK
from tests.daemon.leadership.told import Told

Stand = Callable[..., tuple[Leadership, Told]]
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}"


def _grant(api: Api, namespace: str, *rules: Json) -> None:
    base = RBAC.format(namespace)
    api.create(f"{base}/roles", {"metadata": {"name": "elect"}, "rules": list(rules)})
    api.create(
        f"{base}/rolebindings",
        {
            "metadata": {"name": "elect"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "elect",
            },
            "subjects": [{"kind": "User", "name": "nobody"}],
        },
    )


def _rule(*verbs: str, names: list[str] | None = None) -> Json:
    rule: Json = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs}
    return rule if names is None else rule | {"resourceNames": names}


def test_who_is_refused_says_so_once_and_tries_again(
    stand: Stand, admin_api: Api, namespace: str
) -> None:
    """The sentence names the user, the verb and the resource; granted, the Lease is taken.

    The least rights are get and update of the one Lease, and create, which knows no names.
    """
    candidate, told = stand("a", user="nobody")
    refused = told.wait_for(Role.UNREADABLE)
    assert not candidate.leading()
    sentence = (
        f"the Lease {namespace}/autoscaler cannot be used, and this process does not lead: "
        'leases.coordination.k8s.io "autoscaler" is forbidden: User "nobody" cannot get resource '
        f'"leases" in API group "coordination.k8s.io" in the namespace "{namespace}"'
    )
    assert told.changes == [(Role.UNREADABLE, sentence)]
    _grant(admin_api, namespace, _rule("get", "update", names=["autoscaler"]), _rule("create"))
    told.wait_for(Role.LEADER, after=refused)
    # The API server may know the binding before the role, and then says so in other words.
    assert [one for one, _ in groupby(told.standings)] == [Role.UNREADABLE, Role.LEADER]
    assert candidate.leading()


def test_a_lease_that_is_there_needs_no_right_to_make_one(
    stand: Stand, admin_api: Api, namespace: str
) -> None:
    """To get and update that one are enough, also when it has no spec yet."""
    admin_api.create(LEASES.format(namespace), {"metadata": {"name": "autoscaler"}})
    _grant(admin_api, namespace, _rule("get", "update", names=["autoscaler"]))
    candidate, told = stand("a", user="nobody")
    told.wait_for(Role.LEADER)
    assert candidate.leading()


@pytest.mark.parametrize(
    ("verbs", "verb"),
    [(("get", "update"), "create"), (("get", "create"), "update"), (("create",), "get")],
)
def test_each_right_is_needed(
    stand: Stand, admin_api: Api, namespace: str, verbs: tuple[str, ...], verb: str
) -> None:
    """Without one of the three nobody leads for long, and the sentence says which is missing."""
    _grant(admin_api, namespace, _rule(*verbs))
    _, told = stand("a", user="nobody", times=QUICK)

    def missing() -> bool:
        return any(f"cannot {verb} resource" in sentence for _, sentence in told.changes)

    wait_until(f"{verb} is missed", missing)


def test_a_namespace_that_is_not_there_is_told(stand: Stand) -> None:
    """In the API server's words."""
    _, told = stand("a", namespace="nowhere")
    told.wait_for(Role.UNREADABLE)
    assert told.changes[0][1].endswith('namespaces "nowhere" not found')
