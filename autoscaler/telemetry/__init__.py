"""The current state of the daemon and its targets: metrics, live states, health."""
