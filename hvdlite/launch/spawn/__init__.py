"""Ways to start a job's processes, one file each."""
