"""The objects of a kustomization: kustomize renders them, and an API server gets them."""

import re
import subprocess
from pathlib import Path

import yaml

from tests.service import programs
from tests.worlds.controlplane.api import Api, Json
from tests.worlds.service_account import MANIFESTS

_APPLY = "application/apply-patch+yaml"


def render(folder: Path) -> list[Json]:
    """Return the objects of a kustomization."""
    done = subprocess.run(
        [programs.locate("kustomize"), "build", folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return list(yaml.safe_load_all(done.stdout))


def overlay(folder: Path, kustomization: str) -> list[Json]:
    """Return the objects of a kustomization that names ours by ../kubernetes."""
    # kustomize takes no absolute path.
    (folder / "kubernetes").symlink_to(MANIFESTS)
    mine = folder / "mine"
    mine.mkdir()
    (mine / "kustomization.yaml").write_text(kustomization)
    return render(mine)


def apply(api: Api, found: Json) -> Json:
    """Apply an object on the server's side, as `kubectl apply --server-side` does."""
    return api.patch(f"{path(found)}?fieldManager=kubectl", found, _APPLY)


def path(found: Json) -> str:
    group_version, kind = found["apiVersion"], found["kind"]
    root = f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"
    meta = found["metadata"]
    if "namespace" in meta:
        root += f"/namespaces/{meta['namespace']}"
    plural = re.sub("ys$", "ies", f"{kind.lower()}s")
    return f"{root}/{plural}/{meta['name']}"
