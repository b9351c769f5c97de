"""Our adapters of the Kubernetes API, on a real control plane and on scripted servers."""
