"""One module for each version, oldest first; each upgrades a database of the version before."""
