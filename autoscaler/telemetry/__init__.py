"""What the daemon knows of itself and its targets at any time: metrics, live states, health."""
