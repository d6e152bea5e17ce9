"""Real applications whose files lie in one folder: a wiki, a file server, and video by range requests."""
