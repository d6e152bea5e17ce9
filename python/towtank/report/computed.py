"""How each table and figure is computed: one sentence each, for the index of a paper's files.

What depends on the experiment (the method of a comparison, what was left out) stands in the caption or below the
table; here is what always holds.
"""

from __future__ import annotations

import re

from towtank.report.model import Figure, Table

_ESTIMATE = "one value a run; the mean over the runs that count, and its t interval over runs"
_BANDS = (
    "In each time bin one value a run; the line is the median over runs, the band their smallest and largest."
)
COMPUTED = {
    "claims": "One value a run and variable; treatments are compared block by block as log(treatment ÷ baseline), "
    "shares by difference (by sides where the order was listed); intervals are simultaneous over all claims, p-values "
    "adjusted by Holm.",
    "exploratory": "As the claims, but p-values are adjusted for the false discovery rate of the table.",
    "slo": f"The bound of the experiment file against the value of the treatment: {_ESTIMATE}.",
    "conditions": "From the plan and the records of the runs, whether or not anything went wrong.",
    "capacities": "Highest load of the ladder at which all confirmation runs held, lowest at which all failed "
    "(docs/capacity.md).",
    "elasticity": f"Ready instances against calibrated demand over time; {_ESTIMATE}.",
    "supply-figure": "Ready instances and calibrated demand over time in the first run of each treatment.",
    "turning-points": "Two straight lines that meet against one, by bootstrap, over one value a run.",
    "scalability": "Fit of the Universal Scalability Law over the levels of load, with profile intervals.",
    "treatments": f"Of each variable {_ESTIMATE}.",
    "latency": f"Exact percentiles over the requests of a run (type 7), failures above every success; {_ESTIMATE}.",
    "cost": f"Prices times what a run used (docs/cost.md); {_ESTIMATE}.",
    "cost-items": f"The items of a run's bill; {_ESTIMATE}.",
    "break-even": "Loads at which the costs of a month, reckoned from prices and billed time, are equal; intervals "
    "from those of what was measured.",
    "break-even-figure": "Cost of a month, reckoned from prices and billed time; the shade from the interval of what "
    "was measured.",
    "faults": f"From the first fault to the end of the measured window; {_ESTIMATE}.",
    "pods": f"From the pods and nodes that were watched, over the measured window; {_ESTIMATE}.",
    "pod-starts": "Times between the conditions of every pod's start, pooled over the pods of all runs that count.",
    "cold-starts": "Order statistics (type 7) and standard deviation of the time to first byte of cold requests, "
    "pooled over the runs that count.",
    "cold-phases": "Mean length of the phases of cold requests that could be joined to the instance that answered; "
    "what is shorter than it is known is merged.",
    "cold-starts-figure": "Mean length of the phases of cold requests that could be joined to the instance that "
    "answered; what is shorter than it is known is merged.",
    "predicted-scaling": "The published algorithm of the autoscaler on what was observed, decision by decision, over "
    "all runs that count.",
    "predicted-scaling-figure": "The published algorithm of the autoscaler on what was observed in the first run of "
    "each treatment.",
    "who-answered": "Answers of the whole load that refused requests, attributed by the counters of each part on "
    "the way (docs/serverless.md).",
    "usage": "Mean over the measured window of the samples of each pod or node, then over runs.",
    "logs": f"Bytes that instances wrote in the measured window, kept or not; {_ESTIMATE}.",
    "outcomes-table": "Requests due in the measured windows by outcome, counted over all runs that count.",
    "steps": f"Over the requests of one step of the journey; {_ESTIMATE}.",
    "instances-table": "Requests due in the measured windows by the instance that answered, counted over all runs that "
    "count.",
    "hops-table": "Self time of each hop in the traced requests around the median and in the slow tail: mean over the "
    "requests of a group.",
    "generators": "From the records of the runs: workers, where they stood, and how exactly their clocks are known.",
    "factorial": "Analysis of variance of one value a run, on logs but for shares, with blocks as a term.",
    "latency-published": "One value a run; the mean over the runs that count.",
    "volumes": "Requests due in the measured windows, summed over all runs that count.",
    "statuses": "Requests due in the measured windows by status code, over all runs that count, as a share.",
    "spread": "Order statistics and standard deviation (n − 1) of one value a run; quantiles are of type 7.",
    "normality": "Tests of one value a run; they describe, and choose no method.",
    "runs": "Exact values of each run over its measured window.",
    "forest": "The effects and simultaneous intervals of the table of claims.",
    "forest-exploratory": "The effects of the exploratory table, each with its own interval.",
    "intervals": f"Of each variable {_ESTIMATE}; small marks are the runs themselves.",
    "percentiles": "Exact percentiles of all requests of the runs that count, pooled; failures rank above all "
    "successes.",
    "ecdf": "Empirical distribution of all requests due in the runs that count, pooled; failures never arrive.",
    "request-phase": "Order statistics (type 7) and standard deviation of the time of one phase over the warm answers "
    "of the runs that count, pooled.",
    "request-phase-figure": "Empirical distribution of the time of one phase over the warm answers of the runs that "
    "count, pooled.",
    "timeseries": _BANDS,
    "observed": _BANDS,
    "each": "Samples of single pods and nodes in the first run that counts, averaged in each time bin.",
    "outcomes": "Requests due in the measured windows by outcome, over all runs that count, as a share.",
    "instances": "Requests due in the measured windows by the instance that answered, as a share.",
    "pod-starts-figure": "Distribution of the time since pods were created, pooled over the pods of all runs that "
    "count.",
    "violins": "Density of the successes of all runs that count, pooled, along the logarithmic axis, smoothed over "
    "five of 72 slices; the percentiles of the box are exact and of all requests, failures included.",
    "heat": "Requests of all runs that count by time bin and bucket of latency (8 to a factor of ten), as a share of "
    "the requests due in the bin; exact counts, pooled.",
    "interaction": f"At each combination of levels {_ESTIMATE}.",
    "pareto": f"Of both variables {_ESTIMATE}; the front goes by the means.",
    "hops": "Mean self time of each hop over the traced requests around the median and in the slow tail.",
}
"""Id, without the number of a part, → sentence."""

_NUMBER = re.compile(r"-\d+$|(?<=^pareto)-.*$|(?<=^request-phase)-[a-z]+(?=-figure$|$)")
"""What ids of several figures of a kind have of their own."""


def computed(block: Table | Figure) -> str:
    """Say how a table or figure is computed; empty where nobody wrote it down."""
    return COMPUTED.get(block.id) or COMPUTED.get(_NUMBER.sub("", block.id), "")
