"""Several engines as one: each carries out its part of a job, their records those of one run."""

from towtank.load.workers.fleet import Fleet, WorkerLost, WorkersNotReady
from towtank.load.workers.places import Link, Place, Standing
from towtank.load.workers.shipment import Shipment

__all__ = ["Fleet", "Link", "Place", "Shipment", "Standing", "WorkerLost", "WorkersNotReady"]
