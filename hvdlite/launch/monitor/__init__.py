"""What each rank does, for a person who waits for the job and for other programs.

    board        START HERE: turns the reports of the ranks into rows
    view         `--monitor`: the table on a terminal, or a line in a log
    screen       the bottom of a terminal
    exposition   the numbers as Prometheus reads them, and as a line of JSON
    metrics      `--metrics-port` and `--metrics-file`
    report       `--report`: writes the page

`board` and `exposition` are pure.
"""
