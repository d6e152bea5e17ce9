"""Towtank: one experiment file in, one defensible answer out."""

__version__ = "0.1.0"
