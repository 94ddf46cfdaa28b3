"""Weights: what a model's folder must hold, whether it holds it, and fetching it from the hub."""
