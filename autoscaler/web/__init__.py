"""The daemon over HTTP: a listener with access control, the API, and the pages."""
