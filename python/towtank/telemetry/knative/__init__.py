"""The `knative` source: what Knative's autoscaler decides, and which of its parts answered what."""
