"""Timed messages: kept until their time, then delivered."""
