"""Explains why messages do not arrive: gathers facts through the admin client, and checks them in a fixed order."""
