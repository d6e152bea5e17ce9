"""Which images instances ran under which names: results of two images under one name are never mixed.

A tag can be pushed anew between two runs, and nothing in the experiment file would tell. What a platform says that its
instances really run is kept with each run, and compared with all runs before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from towtank.campaign.resume import usable
from towtank.errors import ChangedError
from towtank.platforms.base import Deployment, NamesImages
from towtank.store import Results

FACT = "images"
"""Under this name `Deployment.describe` has them: image as the deployment names it → what it is."""


class KnownImages:
    """What instances ran so far.

    Parameters
    ----------
    deployments : iterable of mapping
        What the deployments of earlier runs were, as run.json tells it.
    """

    def __init__(self, deployments: Iterable[Mapping[str, Any]] = ()) -> None:
        self._known: dict[str, set[str]] = {}
        for deployment in deployments:
            self.keep(deployment)

    @classmethod
    def of(cls, results: Results) -> KnownImages:
        """Those of an experiment's usable runs."""
        return cls(run.record.deployment for run in results.runs("complete") if usable(run))

    def keep(self, deployment: Mapping[str, Any]) -> None:
        """Take in what the deployment of a run was, as run.json tells it."""
        for image, digests in (deployment.get(FACT) or {}).items():
            self._known.setdefault(str(image), set()).update(map(str, digests))

    def check(self, name: str, deployment: Deployment) -> None:
        """Compare what runs now with all before.

        Raises
        ------
        ChangedError
            An image is another one than in earlier runs, or instances of this deployment differ.
        """
        if not isinstance(deployment, NamesImages):
            return
        for image, digests in deployment.images().items():
            known = self._known.get(image, set())
            if known and not set(digests) <= known:
                raise ChangedError(
                    f"the image {image} of deployment {name!r} is not the one that earlier runs had; they are never "
                    f"mixed\n  then: {', '.join(sorted(known))}\n  now:  {', '.join(sorted(digests))}",
                    hint="push the old one back, or name images by digest (name@sha256:…) so that they stay; "
                    "--force-new keeps the old results aside and starts afresh",
                )
            if len(digests) > 1:
                raise ChangedError(
                    f"instances of deployment {name!r} run different images under the name {image}: "
                    f"{', '.join(sorted(digests))}",
                    hint="it was pushed anew while some nodes still had the old one: name it by digest, or let every "
                    "pod pull (`imagePullPolicy: Always`)",
                )
