"""What we rely on of the Kubernetes API, held against a real control plane and the stand-in.

The tests of this folder do not know which of the two they talk to.
"""
