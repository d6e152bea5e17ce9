"""Actions on OpenWhisk, over its REST API: created, found out about, and removed again."""
