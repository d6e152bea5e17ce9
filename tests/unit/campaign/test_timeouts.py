"""What a run knows of its timeouts: the longest of any step bounds what is said and what is waited for."""

from __future__ import annotations

from dataclasses import replace

from support.campaign_bench import make_plan
from towtank.design.model import Choose, Journey, Option, Request
from towtank.store import Results


def test_the_record_has_the_longest_timeout_of_any_step(bench):
    plan = make_plan(("one",), blocks=1)
    (treatment,) = plan.treatments
    slow = Choose(choose=(Option(steps=(Request(name="slow", timeout="5s"),)),))
    journey = Journey(steps=(Request(name="read", timeout="100ms"), slow))
    workload = treatment.spec.workload.model_copy(update={"journey": journey})
    spec = treatment.spec.model_copy(update={"workload": workload})
    bench.run(replace(plan, treatments=(replace(treatment, spec=spec),)))
    (run,) = Results.open(bench.folder).runs("all")
    assert run.record.timeout_us == 5_000_000, "the workload's own is 1 s"
