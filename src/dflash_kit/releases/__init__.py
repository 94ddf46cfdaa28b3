"""Releases of the patched engine: what they are made of, locked and checked.

Nothing is imported here: tree, series, lockfile and assemble run in the image build, on a bare
Python.
"""
