"""Faults: what the daemon does, what the operator sees, and that it recovers by itself."""
