"""Several daemons that share clusters, while everything fails."""
