"""Declarative pipelines: their parameters, and running them."""
