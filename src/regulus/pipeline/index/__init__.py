"""Rebuilding a store's index files."""
