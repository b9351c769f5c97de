"""The demo, its parts, and the stand-in for a cluster."""
