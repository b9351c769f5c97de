"""What the commands share, and those that look at a daemon or tell it something."""
