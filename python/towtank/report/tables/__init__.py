"""The tables of the report: what is claimed, the treatments, the runs."""

from towtank.report.tables.capacities import capacities
from towtank.report.tables.claims import claims, factorial, service_levels
from towtank.report.tables.clusters import pod_starts, pods, usage
from towtank.report.tables.cold_starts import cold_phases, cold_starts
from towtank.report.tables.conditions import conditions
from towtank.report.tables.cost import break_even, cost_items, costs
from towtank.report.tables.elasticity import elasticity
from towtank.report.tables.generators import generators
from towtank.report.tables.hops import hops
from towtank.report.tables.load_curves import scaling_laws, turning_points
from towtank.report.tables.logs import logs
from towtank.report.tables.normality import normality
from towtank.report.tables.predicted_scaling import predicted_scaling
from towtank.report.tables.published import latencies, spreads, statuses, volumes
from towtank.report.tables.request_phases import request_phases
from towtank.report.tables.runs import runs
from towtank.report.tables.treatments import faults, instances, latency, outcomes, steps, treatments
from towtank.report.tables.who_answered import who_answered

__all__ = [
    "break_even",
    "capacities",
    "claims",
    "cold_phases",
    "cold_starts",
    "conditions",
    "cost_items",
    "costs",
    "elasticity",
    "factorial",
    "faults",
    "generators",
    "hops",
    "instances",
    "latencies",
    "latency",
    "logs",
    "normality",
    "outcomes",
    "pod_starts",
    "pods",
    "predicted_scaling",
    "request_phases",
    "runs",
    "scaling_laws",
    "service_levels",
    "spreads",
    "statuses",
    "steps",
    "treatments",
    "turning_points",
    "usage",
    "volumes",
    "who_answered",
]
