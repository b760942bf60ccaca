"""One module a version, oldest first; each says how a database of the version before gets there."""
