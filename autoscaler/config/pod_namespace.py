"""The namespace of the pod that we run in."""

import re
from pathlib import Path

FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where Kubernetes writes it, beside the service account's token."""


ANYWHERE = "default"
"""Stands for the namespace of the pod where a file is only looked at, outside of one."""


def pod_namespace(file: Path = FILE) -> str | None:
    """Return the namespace; None outside a pod, and where the file holds none."""
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if re.fullmatch("[a-z0-9-]{1,63}", text) else None


def namespace_or_anywhere() -> str:
    """Return the namespace of the pod, outside of one `ANYWHERE`: to look at a file needs none."""
    return pod_namespace() or ANYWHERE
