"""Services on Google Cloud Run, over its Admin API v2: created, waited for with reasons, and removed again."""
