"""Faults: disturbances that are part of a treatment, at times on the run's clock, kept as events, always undone."""
