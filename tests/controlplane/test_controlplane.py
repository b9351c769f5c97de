"""The servers of the test bed, their life and their credentials."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import kubernetes
import pytest
import requests

from tests.controlplane import binaries, workloads
from tests.controlplane.api import Api, ApiError, Json
from tests.controlplane.process import ServerFailedError
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until

WHO_AM_I = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"


def user_of(api: Api) -> Json:
    """Return the user that the apiserver sees behind the session."""
    user: Json = api.create(WHO_AM_I, {})["status"]["userInfo"]
    return user


def gone(pid: int) -> bool:
    """Whether the process has ended, be it that nobody has collected its exit code yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


def test_the_apiserver_is_the_pinned_version(admin_api: Api) -> None:
    """The apiserver is the Kubernetes 1.36 release that go.mod pins."""
    if os.environ.get("KUBEBUILDER_ASSETS"):
        pytest.skip("KUBEBUILDER_ASSETS decides the version")
    version = admin_api.get("/version")["gitVersion"]
    assert version == binaries.kubernetes_version()
    assert version.startswith("v1.36.")


def test_the_issuer_verifies_the_apiserver(control_plane: ControlPlane) -> None:
    """A client that trusts `ca_file` connects; one that trusts the system's issuers refuses."""
    url = f"{control_plane.url}/livez"
    with requests.Session() as session:
        session.trust_env = False
        assert session.get(url, verify=str(control_plane.ca_file), timeout=5).ok
        with pytest.raises(requests.exceptions.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
            session.get(url, timeout=5)


def test_each_token_is_its_user(control_plane: ControlPlane) -> None:
    """A static token authenticates as the user it was made for, an invented one as nobody."""
    for user in ("autoscaler", "viewer", "nobody"):
        with control_plane.api(control_plane.token_for(user)) as api:
            assert user_of(api)["username"] == user
    with control_plane.api("invented") as api, pytest.raises(ApiError) as refused:
        user_of(api)
    assert refused.value.status == 401


def test_a_user_may_do_what_a_role_allows(
    control_plane: ControlPlane, admin_api: Api, namespace: str
) -> None:
    """A user without a role gets 403, and with one may do what it says and nothing more."""
    path = workloads.collection("Deployment", namespace)
    with control_plane.api(control_plane.token_for("viewer")) as viewer:
        with pytest.raises(ApiError) as refused:
            viewer.get(path)
        assert (refused.value.status, refused.value.reason) == (403, "Forbidden")

        bind_view(admin_api, namespace, "viewer")
        assert viewer.get(path)["items"] == []
        with pytest.raises(ApiError) as still_refused:
            viewer.create(path, workloads.deployment("web"))
        assert still_refused.value.status == 403


def bind_view(api: Api, namespace: str, user: str) -> None:
    """Give the user the cluster role `view` in the namespace and wait until it counts."""
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    }
    api.create(f"/apis/{rbac}/v1/namespaces/{namespace}/rolebindings", binding)
    asked = {"namespace": namespace, "verb": "list", "group": "apps", "resource": "deployments"}
    review = {"spec": {"user": user, "resourceAttributes": asked}}
    wait_until(
        f"{user} may list deployments",
        lambda: api.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"][
            "allowed"
        ],
    )


def test_service_account_tokens_are_signed(
    control_plane: ControlPlane, admin_api: Api, namespace: str
) -> None:
    """The apiserver issues a token for a service account, and accepts it."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    admin_api.create(path, {"metadata": {"name": "robot"}})
    request = admin_api.create(f"{path}/robot/token", {"spec": {"expirationSeconds": 600}})
    with control_plane.api(request["status"]["token"]) as api:
        assert user_of(api)["username"] == f"system:serviceaccount:{namespace}:robot"


def test_the_official_client_reads_the_kubeconfig(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Both kubeconfigs, the administrator's and one written for a token, serve that client."""
    written = control_plane.write_kubeconfig(
        tmp_path / "config", control_plane.token_for("autoscaler")
    )
    for path, user in ((control_plane.kubeconfig, "admin"), (written, "autoscaler")):
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(path), client_configuration=configuration)  # type: ignore[no-untyped-call]
        with kubernetes.client.ApiClient(configuration) as client:
            authentication = kubernetes.client.AuthenticationV1Api(client)
            review = authentication.create_self_subject_review(
                kubernetes.client.V1SelfSubjectReview()
            )
        assert review.status
        assert review.status.user_info
        assert review.status.user_info.username == user


def test_a_restart_keeps_the_data(
    control_plane: ControlPlane, admin_api: Api, namespace: str
) -> None:
    """The apiserver comes back as another process, at the same address, with the same objects."""
    made = admin_api.create(CONFIG_MAPS.format(namespace), {"metadata": {"name": "kept"}})
    before = control_plane.pids
    control_plane.restart_apiserver()
    after = control_plane.pids
    assert {name for name in before if before[name] != after[name]} == {"kube-apiserver"}
    kept = admin_api.get(f"{CONFIG_MAPS.format(namespace)}/kept")
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]


def test_a_stopped_apiserver_refuses_connections(
    control_plane: ControlPlane, admin_api: Api
) -> None:
    """Between stop and start nothing listens at the apiserver's address."""
    control_plane.stop_apiserver(grace=0)
    try:
        with pytest.raises(requests.ConnectionError):
            admin_api.get("/version")
    finally:
        control_plane.start_apiserver()
    assert admin_api.get("/version")


def test_stopped_controllers_do_not_act(
    control_plane: ControlPlane, admin_api: Api, namespace: str
) -> None:
    """No controller observes a Deployment while they are stopped; started, one does."""
    path = workloads.collection("Deployment", namespace)

    def observed() -> bool:
        return "observedGeneration" in admin_api.get(f"{path}/web").get("status", {})

    control_plane.stop_controllers()
    try:
        assert "kube-controller-manager" not in control_plane.pids
        admin_api.create(path, workloads.deployment("web"))
        # One that ran would have been at it by then.
        time.sleep(1)
        assert not observed()
    finally:
        control_plane.start_controllers()
    wait_until("the Deployment is observed", observed)


def test_stop_ends_the_processes_and_removes_the_folder(control_plane: ControlPlane) -> None:
    """After `stop` neither the servers nor their files exist, and another plane is untouched."""
    with ControlPlane() as plane:
        pids = plane.pids
        assert set(pids) == {"etcd", "kube-apiserver", "kube-controller-manager"}
        assert set(pids.values()).isdisjoint(control_plane.pids.values())
    assert all(gone(pid) for pid in pids.values())
    assert not plane.data_dir.exists()
    assert not any(gone(pid) for pid in control_plane.pids.values())


def test_the_servers_die_with_their_python_process(control_plane: ControlPlane) -> None:
    """SIGKILL of the process that started a control plane ends its servers as well."""
    del control_plane  # It has made sure that the binaries are there.
    script = (
        "from tests.controlplane.server import ControlPlane\n"
        "plane = ControlPlane(controllers=())\n"
        "plane.start()\n"
        "print(*plane.pids.values(), plane.data_dir, flush=True)\n"
        "input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout
        etcd, apiserver, folder = child.stdout.readline().split()
        assert not gone(int(etcd))
        assert not gone(int(apiserver))
        child.send_signal(signal.SIGKILL)
    wait_until("the servers end", lambda: gone(int(etcd)) and gone(int(apiserver)))
    remove_tree(Path(folder))


def remove_tree(folder: Path) -> None:
    """Remove what a killed process could not."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def test_a_failed_start_tells_the_log(control_plane: ControlPlane) -> None:
    """The error of a server that refuses to start ends in its log, and nothing runs on."""
    del control_plane
    plane = ControlPlane(apiserver_flags=["--no-such-flag"])
    with pytest.raises(ServerFailedError, match=r"kube-apiserver ended[\s\S]*--no-such-flag"):
        plane.start()
    assert plane.pids == {}
    assert not plane.data_dir.exists()


def test_flags_override_and_controllers_are_optional(control_plane: ControlPlane) -> None:
    """A flag given at construction wins over the test bed's own, and no controllers may run."""
    del control_plane
    flags = ["--authorization-mode=AlwaysAllow"]
    with ControlPlane(controllers=(), apiserver_flags=flags, users={"anna": ["team"]}) as plane:
        assert set(plane.pids) == {"etcd", "kube-apiserver"}
        with plane.api(plane.token_for("anna")) as api:
            assert "team" in user_of(api)["groups"]
            assert api.get("/api/v1/namespaces")["items"]
        with pytest.raises(ValueError, match="without controllers"):
            plane.stop_controllers()
