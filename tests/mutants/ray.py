"""Faults of hvdlite.ray."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults("""
RY1: local ranks do not follow the order of GPUs
hvdlite/ray/rank_order.py
- return hosts.index(each.host), [_order_of_gpu(gpu) for gpu in each.gpus], number
+ return hosts.index(each.host), [], number
test_ray_decisions.py::test_ranks_of_a_host_are_neighbours_in_the_order_of_their_gpus

RY2: the first failure is blamed, though its cause may still come
hvdlite/ray/cause.py
- if not self._all or (self._only_consequences() and now < self._began() + SETTLE_SECONDS):
+ if not self._all:
test_ray_decisions.py::test_a_consequence_is_blamed_when_its_cause_does_not_come

RY3: a dead node has slots
hvdlite/ray/nodes.py
- living = [node for node in nodes if node["Alive"]]
+ living = list(nodes)
test_ray_decisions.py::test_nodes_have_slots_for_what_they_have_room
""")
