"""A real Kubernetes control plane on loopback, for tests.

etcd, kube-apiserver and kube-controller-manager run as child processes of the tests. There are no
nodes and no containers: `FakeKubelet` binds pods to a node that is only an object and reports them
running.

    with ControlPlane() as plane, FakeKubelet(plane.url, plane.admin_token, plane.ca_file):
        with plane.api() as api:
            api.create(collection("Deployment", "default"), deployment("web", 3))

`fixtures` is the pytest plugin, `python -m tests.worlds.controlplane.build` builds the binaries
ahead of the tests, and go.mod pins their version.
"""
