"""Faults of loops that go on in place, and of groups whose members the program chooses."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
IP1: the gradients of a burnt turn are not dropped
hvdlite/torch/in_place/loop.py
-                 parameter.grad = None
+                 pass
test_torch_in_place.py::test_two_ranks_die_at_once

IP2: a burnt turn counts as done
hvdlite/torch/in_place/loop.py
-             self.burnt += 1
-         else:
-             state._at_boundary()
+             self.burnt += 1
+         state._at_boundary()
test_torch_in_place.py::test_two_ranks_die_at_once

IP3: a newcomer's buffers are sent in another forward pass than those of the others
hvdlite/torch/in_place/loop.py
- ddp.require_forward_param_sync = True
+ pass
hangs
test_lightning_in_place.py::test_a_newcomer_comes_in_the_middle

IP4: what a broadcast between turns was about to send is made up
hvdlite/torch/in_place/group.py
- if not is_left and not call.operation.reduces:
+ if False:
test_torch_in_place.py::test_the_root_of_a_broadcast_between_turns_dies

IP5: a rank that is a turn behind does not make it alone
hvdlite/elastic/turns.py
- behind = tuple(newest[0] - each.turns for each in moments)
+ behind = tuple(0 for each in moments)
test_elastic_turns.py::test_survivors_come_to_one_moment

IP6: an operation that another rank has had is done again
hvdlite/elastic/turns.py
- (each.turns, each.done) < newest for each in moments)
+ False for each in moments)
test_elastic_turns.py::test_survivors_come_to_one_moment

IP7: Lightning counts a burnt batch
hvdlite/lightning/in_place.py
- if self.going.burnt == burnt:
+ if True:
test_lightning_in_place.py::test_a_newcomer_comes_in_the_middle

IP8: what reconfigure refuses has left the old group
hvdlite/torch/distributed/reconfigurable.py
-         there = self._member.checked(options.uuid, options.handles)
-         self.unbind(_Nobody())
+         self.unbind(_Nobody())
+         there = self._member.checked(options.uuid, options.handles)
test_torch_reconfigure.py::test_members_are_chosen_again_and_again

IP9: a log shows the secret of a process's store
hvdlite/job/reconfiguration.py
- secret: bytes = field(repr=False)
+ secret: bytes
test_reconfiguration.py::test_a_handle_is_text_without_line_ends

IP10: a step of fit() that is made again is counted again
hvdlite/elastic/turns.py
- self.is_open, self.begun, self.done = False, self.begun - 1, self._done_before
+ self.is_open = False
test_keras_in_place.py::test_the_first_step_of_an_epoch_is_made_again

IP11: what callbacks of fit() change between steps is put back
hvdlite/keras/in_place.py
-         self._loop.keep()
+         pass
test_keras_in_place.py::test_the_first_step_of_an_epoch_is_made_again

IP12: newcomers are expected in what callbacks exchange
hvdlite/keras/in_place.py
-         instead_of_all(add_process_set(ranks, name=name))
+         pass
hangs
test_keras_in_place.py::test_a_spare_waits_until_callbacks_have_been_called_again

IP13: callbacks of a newcomer do not know what the others' know
hvdlite/keras/in_place.py
-             self.callbacks.take(plain)
+             pass
test_keras_in_place.py::test_a_newcomer_comes_in_the_middle

IP14: a group that the program has made of all ranks keeps those that are dead
hvdlite/torch/in_place/group.py
- if isinstance(each, InPlace)]
+ if isinstance(each, InPlace)][:1]
test_torch_in_place.py::test_groups_that_the_program_has_made_of_all_ranks_go_on

IP15: JAX compiles nothing for fewer ranks
hvdlite/keras/in_place.py
- self.cursor.parts(max(size - 1, 1)) |
+ self.cursor.parts(size) |
test_keras_in_place.py::test_jax_has_compiled_the_step_of_fewer_ranks_before_one_dies

IP16: the job hears nothing of the end of a loop that counts its epochs itself
hvdlite/torch/in_place/loop.py
-         atexit.register(self._end_of_program)
+         pass
test_torch_in_place.py::test_a_program_that_counts_its_epochs_itself_ends_well_and_is_told_how_to

AR1: who has just asked for something is said not to come
hvdlite/torch/distributed/arrivals.py
- any(a.seconds < patience for a in asked.values()):
+ False:
test_arrivals.py::test_who_is_behind

AR2: ranks that have come are said to be missing
hvdlite/torch/distributed/arrivals.py
- if each.number < last]
+ if each.number <= last]
test_arrivals.py::test_who_is_behind
""")
