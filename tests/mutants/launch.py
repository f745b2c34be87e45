"""Faults of hvdlite/launch: who is started where, what is printed, how a job ends."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
W1: a second Ctrl-C does not kill
hvdlite/launch/watch.py
- self.ask(politely=False)  # a second request
+ self.ask(politely=True)  # a second request
test_launcher.py::test_ctrl_c_twice_does_not_wait_for_the_grace_period

W2: of ranks that died at the same time one that exited is blamed before one that crashed
hvdlite/launch/verdict.py
- return not self.ended.signal and is_consequence(self.last_words), not self.ended.signal
+ return not self.ended.signal and is_consequence(self.last_words), bool(self.ended.signal)
test_watch.py::test_of_ranks_that_died_at_once_a_crash_is_the_cause

W3: `nohup hvdliterun` ends with its terminal
hvdlite/launch/watch.py
- if signal.getsignal(number) != signal.SIG_IGN:
+ if True:
test_launcher.py::test_under_nohup_the_end_of_the_terminal_is_not_the_end_of_the_job

W4: the launcher buffers without bound for a slow terminal
hvdlite/launch/watch.py
- if not accepts and descriptor not in self.paused:
+ if False:
test_watch_output.py::test_a_rank_waits_while_the_reader_is_full
test_watch_output.py::test_a_host_elsewhere_waits_while_the_reader_is_full

W5: a rank is judged before its last words are read: the last line has no cause
hvdlite/launch/watch.py
- self._read_last_words(events)
+ pass
test_watch_output.py::test_a_rank_is_judged_by_what_it_said_last

W6: who only lost a peer is blamed, because its cause comes a moment later
hvdlite/launch/verdict.py
- now - self._first_failure >= waits
+ now - self._first_failure >= 0
test_watch.py::test_a_rank_that_lost_a_peer_is_not_the_cause_if_the_peer_fails_soon

W7: ranks that the launcher ended itself are taken for the cause
hvdlite/launch/verdict.py
- if ended.status and not self.decided and not lost:
+ if ended.status and not lost:
test_watch.py::test_the_first_failure_gives_the_status_and_the_last_line

W18: ranks that the agent of a lost host has killed are taken for the cause
hvdlite/launch/verdict.py
- if ended.status and not self.decided and not lost:
+ if ended.status and not self.decided:
test_watch.py::test_ranks_that_the_agent_of_a_lost_host_kills_are_not_the_cause

W8: a forgotten pager stops a training run
hvdlite/launch/output.py
- elif self._writer.stuck(now) > PATIENCE_SECONDS:
+ elif False:
test_output.py::test_ranks_wait_for_a_slow_reader_but_not_for_one_that_has_stopped

W9: a carriage return at the end of a read is overlooked
hvdlite/launch/output.py
- max(0, len(self.pending) - 1)
+ len(self.pending)
test_output.py::test_however_the_bytes_arrive_the_lines_are_the_same
test_output.py::test_on_a_terminal_each_state_of_a_progress_bar_has_one_prefix

W10: what is printed after an exception is quoted as the cause
hvdlite/launch/last_words.py
- if its_weight >= weight:
+ if True:
test_last_words.py::test_the_last_line_that_names_an_exception_counts

W11: what a rank left to init stays behind when the job ends
hvdlite/launch/spawn/guardian.py
-         if process.session in sessions:
+         if False:
test_watch.py::test_members_are_descendants_and_whoever_shares_a_session

W12: a rank that was killed has not the shell's exit code
hvdlite/launch/spawn/events.py
- return 128 + self.signal if self.signal else self.code
+ return self.signal if self.signal else self.code
test_watch.py::test_a_killed_rank_counts_as_128_and_the_signal

W13: a host that does not answer is waited for for ever
hvdlite/launch/watch.py
- elif self.patience[descriptor].left(now) == 0:
+ elif False:
test_watch.py::test_who_does_not_answer_is_not_waited_for_for_ever

W14: a progress bar fills a log
hvdlite/launch/output.py
- if not self.drawing or now < self._due:
+ if not self.drawing:
test_output.py::test_in_a_file_a_progress_bar_is_a_line_now_and_then_and_its_last_state

W15: --collapse changes the order of a rank's lines
hvdlite/launch/collapse.py
- if number > before), None)
+ ), None)
test_collapse.py::test_no_ranks_lines_change_their_order_and_none_is_lost

W16: a job that may have left ranks behind has another exit code
hvdlite/launch/verdict.py
-         if self._may_run():
-             return _CONNECTION_LOST
test_watch.py::test_ranks_that_may_still_run_are_told_and_are_no_success

W17: OMP_NUM_THREADS of the user's is overwritten
hvdlite/launch/machine.py
- if THREADS in environment or ranks < 2:
+ if ranks < 2:
test_launch_machine.py::test_each_rank_gets_its_share_unless_the_user_has_chosen

H1: slots= twice in a line is taken
hvdlite/launch/hosts.py
- int(given[0]) if len(given) == 1 and given[0].isdecimal() else 0
+ int(given[0]) if given[0].isdecimal() else 0
test_hosts.py::test_a_bad_line_is_named_with_file_and_number

H2: -H a:2,a:2 starts two hosts that are one
hvdlite/launch/hosts.py
-     _refuse_twice(hosts, "-H")
test_hosts.py::test_a_host_listed_twice_is_an_error

H3: a hostfile may have no comments
hvdlite/launch/hosts.py
- content = line.split("#", 1)[0].strip()
+ content = line.strip()
test_hosts.py::test_a_hostfile_may_be_written_in_three_ways

H4: n[07-08] are n7 and n8
hvdlite/launch/nodelist.py
- str(number).zfill(len(first))
+ str(number)
test_nodelist.py::test_nodes

H5: 2(x3) is one node
hvdlite/launch/nodelist.py
- counts += [int(match.group(1))] * times
+ counts += [int(match.group(1))]
test_nodelist.py::test_tasks

H6: more ranks than were asked for
hvdlite/launch/plan.py
- for slot in range(host.slots)][:size]
+ for slot in range(host.slots)]
test_launch_plan.py::test_fewer_processes_than_slots_are_honoured

H7: all ranks have cross rank 0
hvdlite/rendezvous/documents.py
-             before[local] += 1
test_launch_plan.py::test_uneven_hosts_count_across_only_who_has_the_local_rank

H8: a job within a job inherits the outer one's secret
hvdlite/launch/plan.py
- "HVDLITE_SECRET", "HVDLITE_SECRET_FD", "HVDLITE_RENDEZVOUS",
+ "HVDLITE_SECRET", "HVDLITE_RENDEZVOUS",
test_launch_plan.py::test_a_job_within_a_job_does_not_inherit_the_outer_ones_secret

H9: a rank can change the secret of all
hvdlite/launch/secret.py
-         fcntl.fcntl(first, fcntl.F_ADD_SEALS, seals)
test_environment.py::test_the_secret_can_be_read_again_and_again_but_not_changed

H10: the end of a launcher's output is lost where it looks like a tag
hvdlite/launch/spawn/launcher_output.py
-         held, self._held = self._held, b""
-         if not held:
+         held, self._held = b"", b""
+         if not held:
test_launch_words.py::test_each_rank_gets_its_own_bytes_back

H19: ranks that are stuck run on when another one has failed under Hydra
hvdlite/launch/spawn/other_launchers.py
- $status = 0 ] ||
+ $status != 300 ] ||
test_launch_commands.py::test_the_shell_of_a_rank_tells_how_it_has_ended

H20: what the shell of a rank tells is taken for the rank's output
hvdlite/launch/spawn/launcher_output.py
- if position < len(text) and not (self._tagged and self._tag.twice):
+ if position < len(text):
test_launch_words.py::test_each_rank_gets_its_own_bytes_back

H11: the monitor shows rates of a rank's earlier life
hvdlite/launch/monitor/board.py
- if self.reports and report["clock"] < self.reports[-1]["clock"]:
+ if False:
test_monitor.py::test_a_rank_that_has_joined_again_starts_anew

H12: launchers listen where other users can put sockets
hvdlite/launch/attach/directory.py
-     return stat.S_ISDIR(status.st_mode) and own and not status.st_mode & 0o077
+     return stat.S_ISDIR(status.st_mode) and own
test_top.py::test_a_directory_that_others_reach_is_not_used

H13: a launcher tells other users what it runs
hvdlite/launch/attach/attachable.py
- if _user_of(sock) != os.geteuid():
+ if False:
test_top_runs.py::test_strangers_and_nonsense_are_not_answered

H14: ranks report although nothing is attached any more
hvdlite/launch/attach/attachable.py
-         self._wanted.reports(False)
test_top_runs.py::test_a_job_that_nothing_is_attached_to_sleeps

H16: a client without the secret watches the job
hvdlite/rendezvous/serving.py
-         protocol.check_client(expected, data)
-         assert self._guests is not None
+         assert self._guests is not None
test_rendezvous_server.py::
  test_a_connection_that_wants_to_watch_is_handed_over_after_the_handshake

H17: a rank writes a bundle with each report, once one was asked for
hvdlite/job/pulse.py
-         if request.dump not in (0, self._dump):
+         if request.dump:
test_top_runs.py::test_a_dump_from_another_terminal_asks_all_ranks_once

H18: generations of an elastic job write into one bundle
hvdlite/job/where.py
-     told = f"{port}{prefix}".encode()
+     told = f"{port}".encode()
test_bundle.py::test_the_ranks_of_a_job_agree_about_its_name

H15: each rank shows a progress bar
hvdlite/job/progress.py
- _display(total, desc, unit) if self._rank == 0 else _Silence()
+ _display(total, desc, unit)
test_progress.py::test_other_ranks_are_silent_and_get_the_same_items

W31: an observer's exception ends the job
hvdlite/launch/observers.py
-             self._complain(error)
-             return []
+             raise
test_watch.py::test_an_exception_of_an_observer_is_said_once_and_the_job_goes_on

W32: a rank from a public address joins a job without a secret
hvdlite/rendezvous/serving.py
- if self._private and addresses.is_public(address[0]):
+ if False:
test_bootstrap.py::test_a_rank_that_comes_from_a_public_address_is_refused

W33: a bundle shows values that are secrets
hvdlite/base/bundle.py
- and not (isinstance(value, str) and _SECRET_VALUE.match(value))
+ and True
test_bundle.py::test_the_environment_is_shown_without_secrets
""")
