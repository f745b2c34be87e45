"""How `hvdlite top` reaches a job from another terminal of the same user and host.

The launcher listens at a Unix socket in a private directory (`directory`). Its one loop serves the
socket (`server`), and a job that nothing is attached to does no work for it. `attachable` says what
the launcher answers, and `client` is the other side.

Both sides send lines of JSON. A request is {"ask": "job"}, which is answered once, or {"ask":
"ranks"}, which is answered about once a second until the job ends with {"ended": true}.
"""
