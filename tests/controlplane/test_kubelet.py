"""The fake kubelet: what it reports of pods, and what it survives."""

import threading
import time
from datetime import datetime

import pytest

from tests.controlplane import workloads
from tests.controlplane.api import Api, ApiError, Json
from tests.controlplane.kubelet import NODE, FakeKubelet
from tests.controlplane.podstatus import READY_AFTER, TERMINATE_AFTER, is_ready
from tests.controlplane.server import ControlPlane
from tests.controlplane.waiting import wait_until

pytestmark = pytest.mark.usefixtures("kubelet")


def create_pod(api: Api, namespace: str, name: str, annotations: dict[str, str]) -> str:
    """Create a pod and return its path."""
    pod = workloads.pod_template(name, annotations=annotations)
    pod["metadata"]["name"] = name
    api.create(workloads.collection("Pod", namespace), pod)
    return f"{workloads.collection('Pod', namespace)}/{name}"


def running(api: Api, path: str) -> Json:
    """Wait until the pod runs, and return it."""

    def probe() -> Json | None:
        pod = api.get(path)
        return pod if pod["status"].get("phase") == "Running" else None

    pod = wait_until(f"{path} runs", probe)
    assert pod
    return pod


def exists(api: Api, path: str) -> bool:
    """Whether the object is there."""
    try:
        api.get(path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def ready_count(api: Api, namespace: str) -> int:
    """Return how many pods of the namespace are ready."""
    return sum(map(is_ready, api.get(workloads.collection("Pod", namespace))["items"]))


def test_a_pod_is_bound_and_ready(admin_api: Api, namespace: str) -> None:
    """Without a delay a pod is on the fake node, runs, and is ready."""
    pod = running(admin_api, create_pod(admin_api, namespace, "one", {}))
    assert pod["spec"]["nodeName"] == NODE
    assert is_ready(pod)


def since(pod: Json) -> float:
    """Return the seconds between the pod's start and its condition Ready, to the full second."""
    conditions = {each["type"]: each for each in pod["status"]["conditions"]}
    ready = datetime.fromisoformat(conditions["Ready"]["lastTransitionTime"])
    return (ready - datetime.fromisoformat(pod["status"]["startTime"])).total_seconds()


def test_readiness_comes_after_the_delay(admin_api: Api, namespace: str) -> None:
    """A delayed pod runs before it is ready, and its startTime stays when it becomes ready."""
    pods = workloads.collection("Pod", namespace)
    version = admin_api.get(pods)["metadata"]["resourceVersion"]
    create_pod(admin_api, namespace, "late", {READY_AFTER: "2"})
    states: list[Json] = []
    # A watch shows each state, however late somebody looks.
    for event in admin_api.watch(pods, resourceVersion=version, timeoutSeconds=60):
        states.append(event["object"])
        if is_ready(states[-1]):
            break
    pod = next(state for state in states if state["status"].get("phase") == "Running")
    ready = states[-1]
    assert is_ready(ready)
    assert not is_ready(pod)
    assert ready["status"]["startTime"] == pod["status"]["startTime"]
    assert since(ready) >= 2


def test_the_default_delay_can_change(
    control_plane: ControlPlane, kubelet: FakeKubelet, admin_api: Api, namespace: str
) -> None:
    """`ready_after` counts for the pods that come after it is set."""
    del control_plane
    assert kubelet.ready_after == 0
    kubelet.ready_after = float("inf")
    try:
        pod = running(admin_api, create_pod(admin_api, namespace, "held", {}))
    finally:
        kubelet.ready_after = 0
    assert not is_ready(pod)
    assert is_ready(running(admin_api, create_pod(admin_api, namespace, "prompt", {})))


def test_readiness_can_be_withdrawn(kubelet: FakeKubelet, admin_api: Api, namespace: str) -> None:
    """A pod that is reported not ready stays so, and a Deployment counts it out."""
    path = workloads.collection("Deployment", namespace)
    admin_api.create(path, workloads.deployment("web", 2))
    wait_until("both pods are ready", lambda: ready_count(admin_api, namespace) == 2)
    pods = admin_api.get(workloads.collection("Pod", namespace))["items"]
    kubelet.set_ready(namespace, pods[0]["metadata"]["name"], ready=False)
    wait_until(
        "the Deployment counts one ready pod",
        lambda: admin_api.get(f"{path}/web")["status"].get("readyReplicas") == 1,
    )
    assert ready_count(admin_api, namespace) == 1


def test_a_deleted_pod_disappears(admin_api: Api, namespace: str) -> None:
    """A pod deleted with the usual grace of 30 s is gone in less than 10 s."""
    path = create_pod(admin_api, namespace, "one", {})
    running(admin_api, path)
    admin_api.delete(path)
    wait_until("the pod is gone", lambda: not exists(admin_api, path), timeout=10)


def test_a_terminating_pod_can_be_held(admin_api: Api, namespace: str) -> None:
    """A pod that never terminates stays, running and ready, with its deletionTimestamp."""
    path = create_pod(admin_api, namespace, "stuck", {TERMINATE_AFTER: "never"})
    running(admin_api, path)
    prompt = create_pod(admin_api, namespace, "prompt", {})
    running(admin_api, prompt)
    for each in (path, prompt):
        admin_api.delete(each)
    wait_until("the other pod is gone", lambda: not exists(admin_api, prompt), timeout=10)
    stuck = admin_api.get(path)
    assert stuck["metadata"]["deletionTimestamp"]
    assert is_ready(stuck)
    admin_api.delete(path, {"gracePeriodSeconds": 0})


def test_a_pod_of_the_same_name_is_another_pod(admin_api: Api, namespace: str) -> None:
    """The pod that a StatefulSet makes in the place of a deleted one becomes ready as well."""
    admin_api.create(
        workloads.collection("StatefulSet", namespace), workloads.stateful_set("db", 1)
    )
    path = f"{workloads.collection('Pod', namespace)}/db-0"
    wait_until("db-0 is ready", lambda: ready_count(admin_api, namespace) == 1)
    first = admin_api.get(path)["metadata"]["uid"]
    admin_api.delete(path)

    def replaced() -> bool:
        pods = admin_api.get(workloads.collection("Pod", namespace))["items"]
        return any(is_ready(pod) and pod["metadata"]["uid"] != first for pod in pods)

    wait_until("another db-0 is ready", replaced)


def test_it_survives_a_restart_of_the_apiserver(
    control_plane: ControlPlane, admin_api: Api, namespace: str
) -> None:
    """Pods that come after a crash of the apiserver become ready."""
    running(admin_api, create_pod(admin_api, namespace, "before", {}))
    control_plane.restart_apiserver(grace=0)
    assert is_ready(running(admin_api, create_pod(admin_api, namespace, "after", {})))


class ExpiredKubelet(FakeKubelet):
    """Begins its first watch at a version that the apiserver has long forgotten."""

    lists = 0

    def _list(self) -> str:
        version = super()._list()
        self.lists += 1
        return "1" if self.lists == 1 else version


def test_it_survives_an_expired_watch(
    control_plane: ControlPlane, admin_api: Api, namespace: str
) -> None:
    """After 410 Gone it lists anew, and sees the pods that come after that."""
    plane = control_plane
    with ExpiredKubelet(plane.url, plane.admin_token, plane.ca_file) as kubelet:
        wait_until("the pods are listed again", lambda: kubelet.lists == 2)
        pod = running(admin_api, create_pod(admin_api, namespace, "one", {}))
        uid = pod["metadata"]["uid"]
        wait_until("it sees the pod", lambda: uid in kubelet._admitted)


def test_stop_ends_its_threads(control_plane: ControlPlane) -> None:
    """`stop` returns soon, in the middle of a watch, and leaves no thread behind."""
    before = set(threading.enumerate())
    plane = control_plane
    with FakeKubelet(plane.url, plane.admin_token, plane.ca_file) as kubelet:
        wait_until("it watches", lambda: kubelet._watch)
        began = time.monotonic()
    # The watch itself would last a minute.
    assert time.monotonic() - began < 20
    assert set(threading.enumerate()) <= before


def test_a_wrong_token_is_an_error(control_plane: ControlPlane) -> None:
    """A kubelet that the apiserver refuses says so at its start."""
    plane = control_plane
    with pytest.raises(ApiError, match="401"):
        FakeKubelet(plane.url, "wrong", plane.ca_file).start()


def test_five_hundred_pods(admin_api: Api, namespace: str) -> None:
    """A Deployment of 500 becomes ready, and is gone again."""
    path = workloads.collection("Deployment", namespace)
    admin_api.create(path, workloads.deployment("many", 500))

    def ready() -> int:
        return int(admin_api.get(f"{path}/many").get("status", {}).get("readyReplicas", 0))

    wait_until("500 replicas are ready", lambda: ready() == 500, timeout=120, interval=0.2)
    admin_api.patch(f"{path}/many", {"spec": {"replicas": 0}})
    pods = workloads.collection("Pod", namespace)
    wait_until(
        "the pods are gone",
        lambda: not admin_api.get(pods, limit=1)["items"],
        timeout=120,
        interval=0.2,
    )
