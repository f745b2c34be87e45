"""Faults of hvdlite/launch: who is started where, what is printed, how a job ends."""

from __future__ import annotations

from mutants.mutant import Mutant

_WATCH = "hvdlite/launch/watch.py"
_VERDICT = "hvdlite/launch/verdict.py"
_OUTPUT = "hvdlite/launch/output.py"
_HOSTS = "hvdlite/launch/hosts.py"
_PLAN = "hvdlite/launch/plan.py"
_NODES = "hvdlite/launch/nodelist.py"
_OF_WATCH = "tests/unit/test_watch.py::"
_OF_OUTPUT = "tests/unit/test_watch_output.py::"
_OF_LAUNCHER = "tests/multiprocess/test_launcher.py::"

MUTANTS = (
    Mutant(
        "W1",
        _WATCH,
        "self.ask(politely=False)  # a second request",
        "self.ask(politely=True)  # a second request",
        "a second Ctrl-C does not kill",
        (_OF_LAUNCHER + "test_ctrl_c_twice_does_not_wait_for_the_grace_period",),
    ),
    Mutant(
        "W2",
        _VERDICT,
        "return not self.ended.signal and is_consequence(self.last_words), not self.ended.signal",
        "return not self.ended.signal and is_consequence(self.last_words), bool(self.ended.signal)",
        "of ranks that died at the same time one that exited is blamed before one that crashed",
        (_OF_WATCH + "test_of_ranks_that_died_at_once_a_crash_is_the_cause",),
    ),
    Mutant(
        "W3",
        _WATCH,
        "if signal.getsignal(number) != signal.SIG_IGN:",
        "if True:",
        "`nohup hvdliterun` ends with its terminal",
        (_OF_LAUNCHER + "test_under_nohup_the_end_of_the_terminal_is_not_the_end_of_the_job",),
    ),
    Mutant(
        "W4",
        _WATCH,
        "if not accepts and descriptor not in self.paused:",
        "if False:",
        "the launcher buffers without bound for a slow terminal",
        (
            _OF_OUTPUT + "test_a_rank_waits_while_the_reader_is_full",
            _OF_OUTPUT + "test_a_host_elsewhere_waits_while_the_reader_is_full",
        ),
    ),
    Mutant(
        "W5",
        _WATCH,
        "self._read_last_words(events)",
        "pass",
        "a rank is judged before its last words are read: the last line has no cause",
        (_OF_OUTPUT + "test_a_rank_is_judged_by_what_it_said_last",),
    ),
    Mutant(
        "W6",
        _VERDICT,
        "now - self._first_failure < SETTLE_SECONDS",
        "now - self._first_failure < 0",
        "who only lost a peer is blamed, because its cause comes a moment later",
        (_OF_WATCH + "test_a_rank_that_lost_a_peer_is_not_the_cause_if_the_peer_fails_soon",),
    ),
    Mutant(
        "W7",
        _VERDICT,
        "if ended.status and not self.decided and not lost:",
        "if ended.status and not lost:",
        "ranks that the launcher ended itself are taken for the cause",
        (_OF_WATCH + "test_the_first_failure_gives_the_status_and_the_last_line",),
    ),
    Mutant(
        "W18",
        _VERDICT,
        "if ended.status and not self.decided and not lost:",
        "if ended.status and not self.decided:",
        "ranks that the agent of a lost host has killed are taken for the cause",
        (_OF_WATCH + "test_ranks_that_the_agent_of_a_lost_host_kills_are_not_the_cause",),
    ),
    Mutant(
        "W8",
        _OUTPUT,
        "elif self._writer.stuck(now) > PATIENCE_SECONDS:",
        "elif False:",
        "a forgotten pager stops a training run",
        (
            "tests/unit/test_output.py::test_ranks_wait_for_a_slow_reader_but_not_for_one_that_has_stopped",
        ),
    ),
    Mutant(
        "W9",
        _OUTPUT,
        "max(0, len(self.pending) - 1)",
        "len(self.pending)",
        "a carriage return at the end of a read is overlooked",
        (
            "tests/unit/test_output.py::test_however_the_bytes_arrive_the_lines_are_the_same",
            "tests/unit/test_output.py::test_on_a_terminal_each_state_of_a_progress_bar_has_one_prefix",
        ),
    ),
    Mutant(
        "W10",
        "hvdlite/launch/last_words.py",
        "if its_weight >= weight:",
        "if True:",
        "what is printed after an exception is quoted as the cause",
        ("tests/unit/test_last_words.py::test_the_last_line_that_names_an_exception_counts",),
    ),
    Mutant(
        "W11",
        "hvdlite/launch/spawn/guardian.py",
        "        if process.session in sessions:\n",
        "        if False:\n",
        "what a rank left to init stays behind when the job ends",
        (_OF_WATCH + "test_members_are_descendants_and_whoever_shares_a_session",),
    ),
    Mutant(
        "W12",
        "hvdlite/launch/spawn/events.py",
        "return 128 + self.signal if self.signal else self.code",
        "return self.signal if self.signal else self.code",
        "a rank that was killed has not the shell's exit code",
        (_OF_WATCH + "test_a_killed_rank_counts_as_128_and_the_signal",),
    ),
    Mutant(
        "W13",
        _WATCH,
        "elif self.patience[descriptor].left(now) == 0:",
        "elif False:",
        "a host that does not answer is waited for for ever",
        (_OF_WATCH + "test_who_does_not_answer_is_not_waited_for_for_ever",),
    ),
    Mutant(
        "W14",
        "hvdlite/launch/bars.py",
        "if not self.drawing or now < self._due:",
        "if not self.drawing:",
        "a progress bar fills a log",
        (
            "tests/unit/test_output.py::test_in_a_file_a_progress_bar_is_a_line_now_and_then_and_its_last_state",
        ),
    ),
    Mutant(
        "W15",
        "hvdlite/launch/collapse.py",
        "if number > before), None)",
        "), None)",
        "--collapse changes the order of a rank's lines",
        ("tests/unit/test_collapse.py::test_no_ranks_lines_change_their_order_and_none_is_lost",),
    ),
    Mutant(
        "W16",
        "hvdlite/launch/verdict.py",
        "        if self._may_run():\n            return _CONNECTION_LOST\n",
        "",
        "a job that may have left ranks behind has another exit code",
        (_OF_WATCH + "test_ranks_that_may_still_run_are_told_and_are_no_success",),
    ),
    Mutant(
        "W17",
        "hvdlite/launch/machine.py",
        "if THREADS in environment or ranks < 2:",
        "if ranks < 2:",
        "OMP_NUM_THREADS of the user's is overwritten",
        (
            "tests/unit/test_launch_machine.py::test_each_rank_gets_its_share_unless_the_user_has_chosen",
        ),
    ),
    Mutant(
        "H1",
        _HOSTS,
        "int(given[0]) if len(given) == 1 and given[0].isdecimal() else 0",
        "int(given[0]) if given[0].isdecimal() else 0",
        "slots= twice in a line is taken",
        ("tests/unit/test_hosts.py::test_a_bad_line_is_named_with_file_and_number",),
    ),
    Mutant(
        "H2",
        _HOSTS,
        '    _refuse_twice(hosts, "-H")\n',
        "",
        "-H a:2,a:2 starts two hosts that are one",
        ("tests/unit/test_hosts.py::test_a_host_listed_twice_is_an_error",),
    ),
    Mutant(
        "H3",
        _HOSTS,
        'content = line.split("#", 1)[0].strip()',
        "content = line.strip()",
        "a hostfile may have no comments",
        ("tests/unit/test_hosts.py::test_a_hostfile_may_be_written_in_three_ways",),
    ),
    Mutant(
        "H4",
        _NODES,
        "str(number).zfill(len(first))",
        "str(number)",
        "n[07-08] are n7 and n8",
        ("tests/unit/test_nodelist.py::test_nodes",),
    ),
    Mutant(
        "H5",
        _NODES,
        "counts += [int(match.group(1))] * times",
        "counts += [int(match.group(1))]",
        "2(x3) is one node",
        ("tests/unit/test_nodelist.py::test_tasks",),
    ),
    Mutant(
        "H6",
        _PLAN,
        "taken.append((host.name, min(host.slots, free)))",
        "taken.append((host.name, host.slots))",
        "more ranks than were asked for",
        ("tests/unit/test_launch_plan.py::test_fewer_processes_than_slots_are_honoured",),
    ),
    Mutant(
        "H7",
        _PLAN,
        "            before[local_rank] += 1\n",
        "",
        "all ranks have cross rank 0",
        (
            "tests/unit/test_launch_plan.py::test_uneven_hosts_count_across_only_who_has_the_local_rank",
        ),
    ),
    Mutant(
        "H8",
        _PLAN,
        '"HVDLITE_SECRET", "HVDLITE_SECRET_FD", "HVDLITE_RENDEZVOUS", ',
        '"HVDLITE_SECRET", "HVDLITE_RENDEZVOUS", ',
        "a job within a job inherits the outer one's secret",
        (
            "tests/unit/test_launch_plan.py::test_a_job_within_a_job_does_not_inherit_the_outer_ones_secret",
        ),
    ),
    Mutant(
        "H9",
        "hvdlite/launch/secret.py",
        "        fcntl.fcntl(first, fcntl.F_ADD_SEALS, _SEALS)\n",
        "",
        "a rank can change the secret of all",
        (
            "tests/unit/test_environment.py::test_the_secret_can_be_read_again_and_again_but_not_changed",
        ),
    ),
    Mutant(
        "H10",
        "hvdlite/launch/spawn/tags.py",
        '        held, self._held = self._held, b""\n        if not held:\n',
        '        held, self._held = b"", b""\n        if not held:\n',
        "the end of a launcher's output is lost where it looks like a tag",
        ("tests/unit/test_launch_words.py::test_each_rank_gets_its_own_bytes_back",),
    ),
    Mutant(
        "H11",
        "hvdlite/launch/monitor/board.py",
        'if self.reports and report["clock"] < self.reports[-1]["clock"]:',
        "if False:",
        "the monitor shows rates of a rank's earlier life",
        ("tests/unit/test_monitor.py::test_a_rank_that_has_joined_again_starts_anew",),
    ),
)
