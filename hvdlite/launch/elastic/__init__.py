"""The driver of an elastic job: which processes are in which generation.

docs/how-it-works/elastic.md follows a generation through these modules.

    events          START HERE: what the driver hears, and what the state machine tells it to do
    state_machine   decides from events who is in which generation
    members         the processes, the slots to fill, the order of ranks, cool-down after failures
    exits           how members end: they exit, are lost, are killed, or leave
    outcome         when the job is over, its status, and errors that are the program's own
    unreachable     which of two hosts is put out when the network between them fails
    driver          the loop: makes events of what happens, and does the actions
    agents          the members' processes on all hosts, behind agents that are connected in threads
    store_events    what members write into the store, checked, as events
    discovery       what an answer of a discovery script means
    host_discovery  where hosts come from: a script, a hostfile, the command line
    context         what the job around the driver offers: output, verdict, the monitor's line
    options         the flags, and what they come to
    run             the steps of an elastic job in their order
    delivery        the results of `hvdlite.run(fn)` in an elastic job
"""
