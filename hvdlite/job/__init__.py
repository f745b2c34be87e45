"""The life of a job: init and shutdown, who takes part, what can be seen of it."""
