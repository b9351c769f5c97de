"""The outside world, one library per package."""
