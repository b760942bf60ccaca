"""Administration of the topics, groups, messages and logs of a cluster."""
