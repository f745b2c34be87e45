"""Faults of elastic training: what the driver decides, whose state it is, and the data's order."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
L1: samples that tail="pad" repeats are not counted
hvdlite/data/dealing.py
- return Step(at, end, full, full - rest)
+ return Step(at, end, full, 0)
test_elastic_cursor.py::test_repeats_are_counted

L2: an epoch whose last step is not full is a step too short
hvdlite/data/dealing.py
- return rest // full if self.tail == "drop" else -(-rest // full)
+ return rest // full
test_elastic_cursor.py::test_an_epoch_of_seven_samples_and_two_ranks
test_elastic_cursor.py::test_a_loader_that_does_not_follow_the_cursor_is_noticed

L3: the mean over ranks is not that of the batch where their parts differ
hvdlite/data/dealing.py
- return (end - first) * size / step.total
+ return 1.0
test_elastic_cursor.py::test_the_weight_makes_the_mean_over_ranks_that_of_the_batch

L4: batches that were fetched before a change of ranks are trained on after it
hvdlite/data/cursor.py
-         self.deal += 1
-         self._under_way = None
+         self._under_way = None
test_elastic_cursor.py::test_prefetched_batches_of_an_old_deal_are_refused
test_elastic_cursor.py::test_a_loader_of_an_old_deal_stops

L5: a state that is loaded forgets how many samples were repeated
hvdlite/data/cursor.py
-         self.repeated = state["repeated"]
+         self.repeated = 0
test_elastic_cursor.py::test_loading_a_state_goes_there

L6: a step counts twice where both the loop and the state end it
hvdlite/data/cursor.py
-         step, self._under_way = self._under_way, None
+         step = self._under_way
test_elastic_cursor.py::test_a_turn_of_the_loop_is_a_step_and_so_is_the_states_step

L7: the order of a large data set has a sample that there is not
hvdlite/data/order.py
- while (beyond := found >= np.uint64(length)).any():
+ while (beyond := found > np.uint64(length)).any():
test_elastic_order.py::test_it_is_a_permutation

L8: each epoch has the same order
hvdlite/data/order.py
- text = f"hvdlite order {seed} {epoch}".encode()
+ text = f"hvdlite order {seed}".encode()
test_elastic_order.py::test_seed_and_epoch_alone_decide

L9: a step that fails in the middle passes for a whole one if the program only commits
hvdlite/elastic/state.py
-         self.whole = self.steps
+         self.whole = True
test_elastic_states.py::test_commit_counts_a_boundary_and_step_keeps_the_state_whole

L10: replicas that have drifted apart train on
hvdlite/rendezvous/last_step.py
-     _check_fingerprints(ahead)
test_elastic_last_step.py::test_a_replica_that_has_drifted_is_named

L11: ranks that have not trained together go on from one of their states
hvdlite/rendezvous/last_step.py
- report.position < newest - 1]
+ report.position < newest - 2]
test_elastic_last_step.py::test_what_cannot_be_ends_the_job

L12: after a failure in the first step each rank goes back to weights of its own
hvdlite/rendezvous/last_step.py
-     if newest == 0:
-         return _from_one(reports, with_newest[0], Role.RESTORE)
test_elastic_last_step.py::test_the_table
test_elastic_last_step.py::test_any_history_has_one_state_and_each_sample_once

L13: the last whole step is lost
hvdlite/rendezvous/last_step.py
-     newest = max(report.position for report in whole)
+     newest = min(report.position for report in whole)
test_elastic_last_step.py::test_the_table

L14: a member can report for another one
hvdlite/rendezvous/fields.py
- hmac.compare_digest(seal_of(label, data, token).encode(),
+ hmac.compare_digest(found,
test_elastic_documents.py::test_a_report_of_another_token_is_refused

L15: a report of an earlier generation is taken for this one's
hvdlite/rendezvous/documents.py
-     if report.generation != generation:
+     if False:
test_elastic_documents.py::test_a_report_is_refused_below_another_key

L16: failures of an empty place extend its time
hvdlite/launch/elastic/members.py
-         if now >= record.until:
-             record.until
+         if True:
+             record.until
test_elastic_slots.py::test_a_failure_of_an_empty_place_does_not_extend_its_time

L17: failures are forgotten while the place is still empty
hvdlite/launch/elastic/members.py
- now - max(record.last, record.until) >= FORGET_SECONDS
+ now - record.last >= FORGET_SECONDS
test_elastic_slots.py::test_failures_are_remembered_while_the_place_is_empty

L18: two members of a host take one GPU
hvdlite/launch/elastic/members.py
-                 break
-             yield host.name, slot
+                 continue
+             yield host.name, slot
test_elastic_slots.py::test_slots_are_free_host_by_host_and_from_below
test_elastic_rules.py::test_while_a_lower_slot_cools_down_higher_ones_wait

L19: rank 0 may be a newcomer, which has no state to send
hvdlite/launch/elastic/members.py
- is_behind = member.host not in with_survivors
+ is_behind = False
test_elastic_slots.py::test_survivors_come_first_and_keep_their_order
test_elastic_rules.py::test_a_host_without_survivors_goes_behind

L20: ranks that fail because another one did end the job
hvdlite/launch/elastic/outcome.py
- if failure.error and not failure.is_consequence:
+ if failure.error:
test_elastic_slots.py::test_faults_are_three_in_a_row

L20a: ranks that are killed at once end the job by a line that all have printed
hvdlite/launch/elastic/outcome.py
- error = ended.last_line if ended.is_error and not outside else ""
+ error = ended.last_line
test_elastic_slots.py::test_faults_are_three_in_a_row

L20b: a host that takes three ranks with it ends the job
hvdlite/launch/elastic/outcome.py
-         if generation > self.generation or failure.member > self.started:
+         if True:
test_elastic_slots.py::test_what_ends_together_counts_once_unless_no_member_is_left

L20c: a rank that ends with 0 before init() keeps the others waiting
hvdlite/launch/elastic/exits.py
-             for member, failure in self._outcome.take_early():
-                 self.lose(member, failure, now)
+             self._outcome.returned = bool(self._outcome.take_early())
test_elastic_rules.py::test_one_that_ends_with_0_before_the_others_come_to_init_is_lost

L20d: each rank copies its state when its own clock says so
hvdlite/elastic/state.py
- if self._copies_always or not self._pauses:
+ if self._copies_always or self._pace.is_due():
test_elastic.py::test_copies_that_step_makes_are_of_one_position_on_all_ranks

L21: a failure now and then ends a job that goes on in between
hvdlite/launch/elastic/outcome.py
-             self._rows.clear()
test_elastic_rules.py::test_anything_else_is_not_the_programs_fault

L22: the reports of one failure are judged twice
hvdlite/launch/elastic/unreachable.py
- if len(pair) == 2 and last != generation and now - before
+ if len(pair) == 2 and now - before
test_elastic_rules.py::test_one_failure_is_judged_once

L23: of two hosts that cannot reach each other the larger one is put out
hvdlite/launch/elastic/unreachable.py
- key=lambda host: (count[host], -ranks.index(host))
+ key=lambda host: (-count[host], -ranks.index(host))
test_elastic_rules.py::test_the_second_time_the_smaller_host_is_put_out

L24: newcomers that keep coming are never told of
hvdlite/launch/elastic/state_machine.py
-         self._since = now if self._since is None else self._since
+         self._since = now
test_elastic_rules.py::test_newcomers_of_two_seconds_are_told_together

L25: a member fills the log
hvdlite/launch/elastic/store_events.py
-                 if self._quota.allows(now):
+                 if True:
test_elastic_store_events.py::test_a_flood_is_told_in_a_few_lines_and_a_count

L26: a newcomer with other tensors ends the job
hvdlite/rendezvous/documents.py
-         if theirs[name] != form:
+         if False:
test_elastic_likeness.py::test_a_newcomer_with_other_tensors_is_refused_by_name_and_the_others_go_on

L27: a step that is done again draws other random numbers
hvdlite/elastic/state.py
-         self._random.put_back()
test_elastic_likeness.py::test_a_step_that_is_done_again_draws_the_same_random_numbers

L41: any process of the job says for a member that it is done
hvdlite/launch/elastic/store_events.py
-         fields.check_key(key, value, self._tokens[member], member)
test_elastic_store_events.py::test_no_other_process_says_for_a_member_that_it_is_in_trains_or_is_done

L42: a member that is stopped now and then is killed
hvdlite/launch/elastic/exits.py
-         if self._looks - last > 1 + _MISSED:
-             since = now
test_elastic_silence.py::test_one_answer_may_be_missing_and_two_may_not

L43: a host whose agent is stopped is waited for
hvdlite/launch/elastic/agents.py
- return self._open > self._most
+ return False
test_elastic_silence.py::test_an_agent_is_lost_when_it_has_not_answered_for_as_long_as_ssh_waits
test_elastic_agents.py::test_an_agent_that_does_not_answer_is_lost

L44: hosts whose first meeting takes long are put out
hvdlite/launch/elastic/unreachable.py
- if not (self._tries_again and were_up and silence):
+ if not (self._tries_again and silence):
test_elastic_rules.py::test_hosts_that_have_never_met_have_the_start_timeout

L45: any process of the job asks for another member to leave
hvdlite/rendezvous/documents.py
- if not is_sealed(_REQUEST_LABEL, sealed, token, seal):
+ if False:
test_elastic_store_events.py::test_no_process_without_the_members_token_asks_for_it_to_leave

L46: a member that has returned and is stopped is killed while the others train
hvdlite/launch/elastic/exits.py
-         if returned and self._members.of(Stage.SERVING):
-             return
test_elastic_silence.py::
  test_one_that_is_stopped_behind_its_functions_return_is_not_waited_for_while_others_train

L47: the second normal number of a pair is drawn again as a first one
hvdlite/elastic/randomness.py
- memory = _memory_of(numpys) + _memory_of(numpys._bit_generator)
+ memory = _memory_of(numpys._bit_generator)
test_elastic_randomness.py::test_every_change_of_numpys_state_is_seen

LN1: a third member accuses the one that two others name, whose network is at fault
hvdlite/job/membership.py
- lost = noticed if me in unreached else None
+ lost = noticed if me in unreached else lost
test_elastic_far_hosts.py::
  test_two_ranks_that_found_no_way_to_each_other_accuse_each_other
""")
