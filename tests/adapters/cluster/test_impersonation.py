"""Users of a kubeconfig that impersonate another one: each request is made as that one."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from autoscaler import clock
from autoscaler.kubernetes import Api, ConnectError, connect
from tests.adapters.cluster.test_exec_plugins import VERSION, credential
from tests.worlds.cluster.faults import UNAUTHORIZED, Script, read_web
from tests.worlds.cluster.scripted import Asked, scale
from tests.worlds.controlplane.credentials import kubeconfig
from tests.worlds.controlplane.server import ControlPlane

EXTRAS = "right is a mapping of names to lists of texts"
User = Mapping[str, object]

IMPERSONATED: list[tuple[User, list[tuple[str, str]]]] = [
    ({"as": "jane"}, [("User", "jane")]),
    ({"as": "système"}, [("User", "système")]),
    (
        {"as": "system:serviceaccount:shop:scaler", "as-groups": ["scalers", "shop, eu"]},
        [
            ("User", "system:serviceaccount:shop:scaler"),
            ("Group", "scalers"),
            ("Group", "shop, eu"),
        ],
    ),
    ({"as": "jane", "as-uid": "06f6"}, [("User", "jane"), ("Uid", "06f6")]),
    (
        {"as": "jane", "as-user-extra": {"acme.com/Project é": ["a", "b"], "scopes": ["view"]}},
        [
            ("User", "jane"),
            ("Extra-acme.com%2FProject%20%C3%A9", "a"),
            ("Extra-acme.com%2FProject%20%C3%A9", "b"),
            ("Extra-scopes", "view"),
        ],
    ),
    ({"as": "", "as-groups": [], "as-uid": "", "as-user-extra": {}}, []),
    ({"as": None, "as-groups": None, "as-uid": None, "as-user-extra": None}, []),
]


def impersonated(asked: Asked) -> list[tuple[str, str]]:
    """Return the headers of a request that impersonate, without their prefix."""
    prefix = "Impersonate-"
    return [
        (name.removeprefix(prefix), value.encode("latin-1").decode())
        for name, value in asked.headers
        if name.startswith(prefix)
    ]


def send_each_kind(api: Api) -> None:
    deadline = clock.monotonic() + 10
    read_web(api)
    api.once("PUT", "/apis/apps/v1/namespaces/shop/deployments/web/scale", deadline, body={})
    api.once("POST", "/api/v1/namespaces/shop/events", deadline, body={})
    api.stream("/api/v1/pods", {"watch": "1"}, 5.0)


@pytest.mark.parametrize(("user", "headers"), IMPERSONATED)
def test_every_request_impersonates(
    script: Script, user: User, headers: list[tuple[str, str]]
) -> None:
    server, api = script(scale(1), user={"token": "base", **user})
    send_each_kind(api)
    assert server.methods == ["GET", "PUT", "POST", "GET"]
    assert [impersonated(asked) for asked in server.asked] == [headers] * 4


@pytest.mark.parametrize("way", ["token", "tokenFile", "exec", "password", "nothing"])
def test_whoever_signs_in_impersonates(script: Script, tmp_path: Path, way: str) -> None:
    """The base identity may come from anywhere."""
    (tmp_path / "token").write_text("base")
    command = {"command": "echo", "args": [credential("base")], "apiVersion": VERSION}
    ways: dict[str, dict[str, object]] = {
        "token": {"token": "base"},
        "tokenFile": {"tokenFile": str(tmp_path / "token")},
        "exec": {"exec": command},
        "password": {"username": "base", "password": "s3cret"},
        "nothing": {},
    }
    server, api = script(scale(1), user={**ways[way], "as": "jane", "as-groups": ["a"]})
    send_each_kind(api)
    for asked in server.asked:
        assert impersonated(asked) == [("User", "jane"), ("Group", "a")]
    assert {bool(asked.authorization) for asked in server.asked} == {way != "nothing"}


def test_without_impersonation_no_header_is_sent(script: Script) -> None:
    """An empty one would be refused by the API server."""
    server, api = script(scale(1), user={"token": "base"})
    send_each_kind(api)
    assert [impersonated(asked) for asked in server.asked] == [[]] * 4


def test_a_kubeconfig_that_is_read_again_may_impersonate_another_user(
    script: Script, tmp_path: Path
) -> None:
    """Credentials and the user whom they impersonate change together."""
    server, api = script(UNAUTHORIZED, scale(1), user={"token": "one", "as": "jane"})
    server.write_kubeconfig(tmp_path / "kubeconfig", **{"token": "two", "as": "joe"})
    read_web(api)
    sent = [(asked.authorization, impersonated(asked)) for asked in server.asked]
    assert sent == [("Bearer one", [("User", "jane")]), ("Bearer two", [("User", "joe")])]


@pytest.mark.parametrize(
    ("user", "fault"),
    [
        *(
            ({"as": name}, "as of its user is not valid; right is the name of a user")
            for name in (5, ["jane"], "jane\nX-Other: 1", {"user": "jane"})
        ),
        ({"as": "j", "as-uid": 7}, "as-uid of its user is not valid; right is a uid"),
        *(
            (
                {"as": "jane", "as-groups": groups},
                "as-groups of its user is not valid; right is a list of the names of groups",
            )
            for groups in ("scalers", [5], [""], ["a\nb"], {"a": "b"})
        ),
        *(
            (
                {"as": "jane", "as-user-extra": extra},
                f"as-user-extra of its user is not valid; {EXTRAS}",
            )
            for extra in (["a"], "a", {"a": "b"}, {5: ["b"]}, {"a": [None]}, {"": ["b"]})
        ),
        *(
            (user, "its user impersonates groups, a uid or extras and no user")
            for user in (
                {"as-groups": ["a"]},
                {"as-uid": "1"},
                {"as-user-extra": {"a": ["b"]}},
                {"as": "", "as-groups": ["system:masters"]},
            )
        ),
    ],
)
def test_what_cannot_be_impersonated_is_refused(tmp_path: Path, user: User, fault: str) -> None:
    """Nothing is sent with the rights of the base identity."""
    path = tmp_path / "k"
    path.write_text(kubeconfig({"server": "https://127.0.0.1:1"}, {"token": "base", **user}))
    with pytest.raises(ConnectError) as refused:
        connect(path)
    assert str(refused.value) == f'context "main" of {path} cannot be used: {fault}'


def test_the_api_server_takes_requests_for_those_of_the_other_user(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """It reads names, groups and extras as they are in the kubeconfig."""
    path = control_plane.write_kubeconfig(tmp_path / "k", control_plane.admin_token)
    document = yaml.safe_load(path.read_text())
    document["users"][0]["user"] |= {
        "as": "jane",
        "as-uid": "06f6",
        "as-groups": ["scalers", "shop, eu"],
        "as-user-extra": {"acme.com/project é": ["a", "b, c"]},
    }
    path.write_text(yaml.safe_dump(document))
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    with connect(path) as api:
        url = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        answer = api.once("POST", url, clock.monotonic() + 10, body=kind)
    assert isinstance(answer, dict)
    user = answer["status"]["userInfo"]
    assert (user["username"], user["uid"]) == ("jane", "06f6")
    assert user["groups"] == ["scalers", "shop, eu", "system:authenticated"]
    assert user["extra"] == {"acme.com/project é": ["a", "b, c"]}
