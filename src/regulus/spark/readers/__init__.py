"""Batch and stream readers of the data source, and what they plan."""
