"""Dirichlet- and Pitman-Yor processes given records of their urn."""
