"""Consumer groups: their members, settings, offsets and locks."""
