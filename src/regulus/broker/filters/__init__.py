"""Filters: which messages a subscription accepts, by tag or SQL92 expression."""
