"""What a job has done. Neither the native core nor a framework is needed to look at it.

report      START HERE: a page with charts and what to do about what they show
timeline    merges the timelines of all ranks on one clock
"""
