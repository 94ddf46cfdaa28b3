"""The smoke test of a running engine: what is checked, what was found, the receipt."""
