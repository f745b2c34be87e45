"""How `hvdlite top` reaches a job from another terminal of the same user and host.

The launcher listens at a Unix socket in a private directory. From another host, a
client that knows the job's secret comes through the port of the job's store, which hands its
connection over. The launcher's one loop serves both, and a job that nothing is attached to does no
work for it.

    attachable   START HERE: what the launcher answers, and what it wants of the ranks
    client       the other side: finds jobs and asks their launchers
    directory    the private directory with a socket for each job

Both sides send lines of JSON. The requests {"ask": "job"} and {"ask": "dump"} are answered once,
and {"ask": "ranks"} about once a second until the job ends with {"ended": true}.
"""
