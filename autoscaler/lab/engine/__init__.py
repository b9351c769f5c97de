"""Replays: the decisions of live syncs in a simulated world, with a virtual clock."""
