"""The command `hvdlite`.

    cli          START HERE: its arguments
    top          `hvdlite top`: shows a running job
    top_view     what it shows
    explain      `hvdlite explain`: says what a bundle shows
    leave        `hvdlite leave`: ranks of an elastic job on this host leave it
    ranks_here   finds this user's ranks and jobs in /proc

A command imports its module when it runs, so `hvdlite --help` answers at once.
"""
