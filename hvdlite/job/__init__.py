"""The life of a job: init and shutdown, process sets, observation."""
