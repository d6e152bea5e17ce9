"""The function to measure in Python, on func-python, the runtime of Knative's function template (../CONTRACT.md)."""
