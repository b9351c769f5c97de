"""Replays: the decisions of live syncs in a simulated world, under a virtual clock."""
