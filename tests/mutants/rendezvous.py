"""Faults of hvdlite/rendezvous: the store, its door, and what becomes of ranks that are lost while
they join."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
V1: a flood of strangers pushes out whoever comes last
hvdlite/rendezvous/serving.py
- self._close(next(iter(self._strangers)), why)
+ self._close(next(reversed(self._strangers)), why)
test_rendezvous_strangers.py::test_a_flood_of_strangers_pushes_out_the_oldest_and_friends_get_in

V2: once without descriptors, the store lets nobody in any more
hvdlite/rendezvous/serving.py
-             self._selector.register(self._listener, selectors.EVENT_READ)
-         return True
+         return True
test_rendezvous_strangers.py::test_without_descriptors_the_server_pauses_and_recovers

V3: who leaves while it waits stays in the table for ever
hvdlite/rendezvous/serving.py
-         connection.closed = True
-         if connection.waiter is not None:
-             self.table.cancel(connection.waiter)
+         connection.closed = True
test_rendezvous_server.py::test_who_leaves_while_it_waits_is_waited_with_no_longer

V4: a client whose machine vanished keeps its descriptor for ever
hvdlite/rendezvous/serving.py
- sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
+ pass
test_rendezvous_server.py::test_a_client_whose_machine_vanishes_is_noticed_by_the_system

V5: who was answered is answered again when its time is over
hvdlite/rendezvous/table.py
-         waiter.reply = None
-         reply(self._answer(waiter))
+         reply(self._answer(waiter))
test_rendezvous_table.py::test_a_waiter_is_answered_once_by_the_key_it_waits_for
test_rendezvous_table.py::test_waiters_that_were_answered_do_not_pile_up_behind_far_deadlines

V6: a collect is answered with keys that did not exist at the same time
hvdlite/rendezvous/table.py
- if index is None and waiter.position > 0:
+ if False:
test_rendezvous_server.py::test_collect_wants_keys_that_exist_at_the_same_time
test_rendezvous_table.py::
  test_collects_are_answered_exactly_when_all_keys_exist_in_whatever_order_keys_come_and_go

V7: a collect brings what the keys had before
hvdlite/rendezvous/table.py
-         self._values[key] = value
-         self._version += 1
+         self._values[key] = value
test_rendezvous_table.py::test_one_answer_to_a_collect_is_made_for_all_and_made_anew_after_a_change

V8: milliseconds are taken for seconds
hvdlite/rendezvous/table.py
- deadline = now + request.argument / 1000
+ deadline = now + request.argument
test_rendezvous_table.py::test_deadlines_are_kept_to_the_millisecond_and_in_order

V9: deleting a key deletes those that only begin alike
hvdlite/rendezvous/table.py
- below = key + "/"
+ below = key
test_rendezvous_server.py::test_delete_removes_the_key_and_all_below_it_only

V10: connections of a job that has met are kept for ever
hvdlite/rendezvous/attempts.py
-         if attempt.met:
-             attempt.connections.clear()
-         return attempt, rank
+         return attempt, rank
test_rendezvous_attempts.py::test_a_job_that_has_met_keeps_none_of_its_connections

V11: a rank that leaves after all have met fails the job that is running
hvdlite/rendezvous/attempts.py
-         if attempt is None or attempt.met or attempt.verdict is not None:
-             return None
+         if attempt is None or attempt.verdict is not None:
+             return None
test_rendezvous_attempts.py::test_stories
test_rendezvous_wills.py::test_those_who_have_all_arrived_may_leave

V12: who comes late to an attempt that failed waits for ranks that have given up
hvdlite/rendezvous/attempts.py
-             if rank not in latest.told:
-                 latest.told.add(rank)
-                 raise AttemptFailed(latest.verdict)
test_rendezvous_attempts.py::test_stories

V13: a frame that was recorded and sent again is served
hvdlite/rendezvous/protocol.py
-     if sequence != expected_sequence:
-         raise ProtocolError(f"frame {sequence} came instead of frame {expected_sequence}")
test_rendezvous_strangers.py::test_a_break_in_the_sequence_closes_the_connection
test_rendezvous_strangers.py::test_a_repeated_frame_closes_the_connection

V14: a client without the secret is served
hvdlite/rendezvous/protocol.py
-     if not hmac.compare_digest(expected_proof, data):
+     if False:
test_rendezvous_strangers.py::test_a_wrong_proof_closes_the_connection_before_anything_is_parsed

V15: a length of many gigabytes is believed
hvdlite/rendezvous/protocol.py
-     if length > MAX_PAYLOAD:
+     if False:
test_rendezvous_strangers.py::test_a_huge_length_closes_the_connection_without_memory

V16: requests sent ahead are answered while an earlier one still waits
hvdlite/rendezvous/serving.py
- if connection.asking or len(connection.buffer) < connection.need:
+ if len(connection.buffer) < connection.need:
test_rendezvous_server.py::test_requests_sent_ahead_are_answered_in_order

V17: ranks are told the first address of the store instead of the one that answers
hvdlite/rendezvous/addresses.py
-                 return address, result
+                 return addresses[0], result
test_rendezvous_addresses.py::
  test_the_address_behind_which_the_secret_is_known_is_found_among_others

V18: strangers fill the launcher's log
hvdlite/rendezvous/quota.py
-         self._left_out += 1
-         return False
+         return True
test_rendezvous_quota.py::test_the_first_few_are_written_and_the_others_counted_once_per_interval

V22: rank 0 tells the job's secret to every user of the host
hvdlite/job/bootstrap/by_socket.py
- problem = "" if self._to_everybody else why_not(
+ problem = "" if True else why_not(
test_bootstrap.py::test_another_user_who_knows_all_that_can_be_known_hears_nothing

V19: ranks believe another user who listens in place of rank 0
hvdlite/job/bootstrap/by_socket.py
- problem = "" if has_secret else why_not(
+ problem = "" if True else why_not(
test_bootstrap.py::test_another_user_who_listens_in_place_of_rank_0_is_not_believed

V20: jobs that are given one secret have one key, and let one another's ranks in
hvdlite/job/bootstrap/offer.py
- return hmac.digest(secret, b"hvdlite job " + job.encode(), "sha256")
+ return secret
test_bootstrap.py::test_a_secret_for_many_jobs_is_no_jobs_own

V21: a secret that the whole group can read is taken
hvdlite/launch/secret.py
- if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
+ if status.st_mode & stat.S_IRWXO:
test_environment.py::test_a_file_that_others_can_open_is_refused

VJ1: ranks whose large packets are lost are said not to have called hvd.init()
hvdlite/rendezvous/serving.py
- self.carry_out(Request(Operation.SET, joined))
test_rendezvous_wills.py::test_who_has_joined_is_known_before_it_says_anything_of_itself
""")
