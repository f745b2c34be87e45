"""`hvdlite report` and `hvdliterun --report`: one page with charts of what a job has done.

page           START HERE: the page, from its facts
facts          what the page shows of a job
findings       decides which advice the numbers carry
ranks          the sections about ranks: steps, waiting, changes, environment
communication  the sections about tensors, batches and transports
charts         charts, sections and tables as HTML; round numbers for axes
series         decides which ranks and which times a chart shows
words          numbers as people read them
style          the page's CSS
cli            the command: reads timelines and lines of --metrics-file, makes the page
history        the facts of a running job, in bounded memory
details        what past operations tell about tensors, in bounded memory
timelines      the facts of recorded timelines
"""
