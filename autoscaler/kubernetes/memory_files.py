"""Certificates and keys inside a kubeconfig, as files in memory.

The client library needs a path, and would write them to the system's temporary directory, where a
killed process leaves them.
"""

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kubernetes.client import Configuration
from kubernetes.config import kube_config

_MOST_UNUSED = 64
"""The most unused files that are kept: a plugin that renews certificates creates two each time."""

# It is private and has no types, but there is no other way.
_on_disk: Callable[..., str] = kube_config._create_temp_file_with_content  # noqa: SLF001
_lock = threading.Lock()
_files: dict[bytes, int] = {}
"""The descriptors by content; the newest are last."""
_configurations: "weakref.WeakSet[Configuration]" = weakref.WeakSet()


def use_for(configuration: Configuration) -> None:
    """Let the client keep this configuration's certificates in memory while it lives, on Linux.

    It replaces a function of the library, for the whole process.
    """
    with _lock:
        _configurations.add(configuration)
    if hasattr(os, "memfd_create"):
        kube_config._create_temp_file_with_content = _in_memory  # noqa: SLF001 - as above


def _in_memory(
    content: str | bytes,
    temp_file_path: str | None = None,
    force_recreate: bool = False,  # noqa: FBT001, FBT002 - the library's signature
) -> str:
    """Return the path of a file with this content; the same path as long as it is kept."""
    data = content.encode() if isinstance(content, str) else content
    with _lock, suppress(OSError):
        if data not in _files:
            _forget_some()
            _files[data] = _written(data)
        path = _path(_files[data])
        if Path(path).is_file():
            return path
    return _on_disk(content, temp_file_path, force_recreate)


def _forget_some() -> None:
    """Close the oldest unused files if there are many."""
    used = {
        path
        for configuration in _configurations
        for path in (configuration.cert_file, configuration.key_file, configuration.ssl_ca_cert)
    }
    unused = [data for data, descriptor in _files.items() if _path(descriptor) not in used]
    for data in unused[: max(0, len(unused) + 1 - _MOST_UNUSED)]:
        os.close(_files.pop(data))


def _path(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _written(data: bytes) -> int:
    descriptor = os.memfd_create("kubeconfig")
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(data)
    return descriptor
