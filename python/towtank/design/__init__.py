"""From an experiment file to a plan: read, validate, expand factors, order the runs. Executes nothing."""

from towtank.design.answer import Power, contrasts, power
from towtank.design.digest import difference
from towtank.design.loading import extend, load_plan
from towtank.design.plan import Plan, PlannedRun, Treatment
from towtank.design.problems import Problem

__all__ = [
    "Plan",
    "PlannedRun",
    "Power",
    "Problem",
    "Treatment",
    "contrasts",
    "difference",
    "extend",
    "load_plan",
    "power",
]
