"""`autoscaler demo`: the daemon scales the workers of a queue, in about a minute."""
