"""The composition root: builds everything from the configuration and runs it until stopped."""
