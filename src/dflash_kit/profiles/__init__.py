"""Profiles (the configuration of one kind of host) and pairs (a target model and its draft)."""
