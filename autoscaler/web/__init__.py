"""The daemon over HTTP: a listener with its access, the API, and the pages."""
