"""Other load generators as the load of an experiment: an existing k6 script or locustfile drives a deployment.

A driver says which process to start and which file will hold its requests; the process is started, bounded and ended by
`campaign.driving`, and the file is read by `load.importers`. Nothing here runs anything.
"""

from towtank.drivers.base import DriveContext, Driver, Launch

__all__ = ["DriveContext", "Driver", "Launch"]
