"""Elastic training in a rank: the loop around a program's function, states and data."""
