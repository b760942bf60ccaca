"""Handlers: one module for each request or family of requests, named after its code."""
