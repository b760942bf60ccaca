"""Filters: which messages a subscription takes, by tag or SQL92 expression."""
