"""How `hvdlite top` reaches a job from another terminal of the same user and host.

The launcher listens at a Unix socket in a private directory (`directory`). From another host, a
client that knows the job's secret comes through the port of the job's store, which hands its
connection over. The launcher's one loop serves both (`server`), and a job that nothing is attached
to does no work for it. `attachable` says what the launcher answers, `wanted` what it wants of the
ranks, and `client` is the other side.

Both sides send lines of JSON. The requests {"ask": "job"} and {"ask": "dump"} are answered once,
and {"ask": "ranks"} about once a second until the job ends with {"ended": true}.
"""
