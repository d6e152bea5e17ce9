"""Storage backends on one machine: CephFS, NFS and a plain directory, each with nothing left behind."""
