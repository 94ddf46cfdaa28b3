"""What a host is, and whether a profile can be deployed on it."""
