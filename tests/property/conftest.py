"""A busy machine must not fail a property by the clock."""

from hypothesis import settings

settings.register_profile("regulus", deadline=None)
settings.load_profile("regulus")
