"""The `kubernetes` platform: manifests, a kustomize folder or a Helm chart, created in a cluster and removed again.

`config` is its part of an experiment file and imports nothing heavy; `platform` is where everything begins.
docs/kubernetes.md says what it does, which rights it needs, and how requests reach what it deploys.
"""
