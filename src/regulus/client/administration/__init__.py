"""Administration: topics, groups, messages and logs of a cluster."""
