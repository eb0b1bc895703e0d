"""Mixtures of regressions: the model, and a chain for it."""
