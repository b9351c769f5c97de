"""KEDA itself beside the daemon, each on Deployments of its own that follow the same queues."""
