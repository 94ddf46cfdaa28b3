"""Deployments: what a host is to run, what it runs, and what has to be done about it."""
