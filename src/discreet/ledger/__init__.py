"""Ledgers: what several releases of one table cost together, decided as one goes."""
