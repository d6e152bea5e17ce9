//! Runs the processes of local deployments and ends every one of them.
