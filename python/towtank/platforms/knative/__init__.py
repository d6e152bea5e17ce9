"""Functions and Services on Knative Serving: what they are made of, when they are up, and that they are at zero."""
