"""What the Estimators of all frameworks share, under Horovod's names."""
