"""Training loops that go on where they are when ranks die, leave and come: nothing is unwound.

    hvd.elastic.going_on(model, optimizer, loader)

docs/how-it-works/elastic.md says what a burnt turn is; hvdlite/elastic/turns.py who is ahead.

    loop      START HERE: going_on(), for DistributedDataParallel
    group     the default process group, whose operations of a burnt turn answer alone
"""
