"""The `netdata` source: charts that the experiment file names, asked of a Netdata agent when a run is over."""
