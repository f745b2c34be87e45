"""Faults of hvdlite/rendezvous: the store, its door, and what becomes of ranks that are lost while
they join."""

from __future__ import annotations

from mutants.mutant import Mutant

_SERVER = "hvdlite/rendezvous/serving.py"
_TABLE = "hvdlite/rendezvous/table.py"
_MEETINGS = "hvdlite/rendezvous/meetings.py"
_PROTOCOL = "hvdlite/rendezvous/protocol.py"
_STRANGERS = "tests/unit/test_rendezvous_strangers.py::"
_SERVED = "tests/unit/test_rendezvous_server.py::"
_OF_TABLE = "tests/unit/test_rendezvous_table.py::"
_STORIES = "tests/unit/test_rendezvous_meetings.py::test_stories"

MUTANTS = (
    Mutant(
        "V1",
        _SERVER,
        "                    next(iter(self._strangers)),",
        "                    next(reversed(self._strangers)),",
        "a flood of strangers pushes out whoever comes last",
        (_STRANGERS + "test_a_flood_of_strangers_pushes_out_the_oldest_and_friends_get_in",),
    ),
    Mutant(
        "V2",
        _SERVER,
        "            self._selector.register(self._listener, selectors.EVENT_READ)\n        return "
        "True\n",
        "        return True\n",
        "once without descriptors, the store lets nobody in any more",
        (_STRANGERS + "test_without_descriptors_the_server_pauses_and_recovers",),
    ),
    Mutant(
        "V3",
        _SERVER,
        """        connection.closed = True
        if connection.waiter is not None:
            self._table.cancel(connection.waiter)
""",
        "        connection.closed = True\n",
        "who leaves while it waits stays in the table for ever",
        (_SERVED + "test_who_leaves_while_it_waits_is_waited_with_no_longer",),
    ),
    Mutant(
        "V4",
        _SERVER,
        "sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)",
        "pass",
        "a client whose machine vanished keeps its descriptor for ever",
        (_SERVED + "test_a_client_whose_machine_vanishes_is_noticed_by_the_system",),
    ),
    Mutant(
        "V5",
        _TABLE,
        "        waiter.reply = None\n        reply(self._answer(waiter))\n",
        "        reply(self._answer(waiter))\n",
        "who was answered is answered again when its time is over",
        (
            _OF_TABLE + "test_a_waiter_is_answered_once_by_the_key_it_waits_for",
            _OF_TABLE + "test_waiters_that_were_answered_do_not_pile_up_behind_far_deadlines",
        ),
    ),
    Mutant(
        "V6",
        _TABLE,
        "        if index is None and waiter.position > 0:\n            index = "
        "self._first_missing(waiter, 0)  # keys that existed may have been deleted since\n",
        "",
        "a collect is answered with keys that did not exist at the same time",
        (
            _SERVED + "test_collect_wants_keys_that_exist_at_the_same_time",
            _OF_TABLE
            + "test_collects_are_answered_exactly_when_all_keys_exist_in_whatever_order_keys_come_and_go",  # noqa: E501
        ),
    ),
    Mutant(
        "V7",
        _TABLE,
        "        self._values[key] = value\n        self._version += 1\n",
        "        self._values[key] = value\n",
        "a collect brings what the keys had before",
        (_OF_TABLE + "test_one_answer_to_a_collect_is_made_for_all_and_made_anew_after_a_change",),
    ),
    Mutant(
        "V8",
        _TABLE,
        "deadline = now + request.argument / 1000",
        "deadline = now + request.argument",
        "milliseconds are taken for seconds",
        (_OF_TABLE + "test_deadlines_are_kept_to_the_millisecond_and_in_order",),
    ),
    Mutant(
        "V9",
        _TABLE,
        'below = key + "/"',
        "below = key",
        "deleting a key deletes those that only begin alike",
        (_SERVED + "test_delete_removes_the_key_and_all_below_it_only",),
    ),
    Mutant(
        "V10",
        _MEETINGS,
        "        if attempt.met:\n            attempt.seats.clear()\n        return attempt, "
        "rank\n",
        "        return attempt, rank\n",
        "seats of a job that has met are kept for ever",
        (
            "tests/unit/test_rendezvous_meetings.py::test_a_job_that_has_met_keeps_none_of_its_connections",
        ),
    ),
    Mutant(
        "V11",
        _MEETINGS,
        "if attempt is None or attempt.met or attempt.verdict is not None:",
        "if attempt is None or attempt.verdict is not None:",
        "a rank that leaves after all have met fails the job that is running",
        (
            _STORIES,
            "tests/unit/test_rendezvous_wills.py::test_those_who_have_all_arrived_may_leave",
        ),
    ),
    Mutant(
        "V12",
        _MEETINGS,
        "            if rank not in latest.told:\n                latest.told.add(rank)\n          "
        "      raise Lost(latest.verdict)\n",
        "",
        "who comes late to an attempt that failed waits for ranks that have given up",
        (_STORIES,),
    ),
    Mutant(
        "V13",
        _PROTOCOL,
        '    if sequence != expected_sequence:\n        raise ProtocolError(f"frame {sequence} '
        'came instead of frame {expected_sequence}")\n',
        "",
        "a frame that was recorded and sent again is served",
        (
            _STRANGERS + "test_a_break_in_the_sequence_closes_the_connection",
            _STRANGERS + "test_a_repeated_frame_closes_the_connection",
        ),
    ),
    Mutant(
        "V14",
        _PROTOCOL,
        "    if not hmac.compare_digest(expected_proof, data):\n",
        "    if False:\n",
        "a client without the secret is served",
        (_STRANGERS + "test_a_wrong_proof_closes_the_connection_before_anything_is_parsed",),
    ),
    Mutant(
        "V15",
        _PROTOCOL,
        "    if length > MAX_PAYLOAD:\n",
        "    if False:\n",
        "a length of many gigabytes is believed",
        (_STRANGERS + "test_a_huge_length_closes_the_connection_without_memory",),
    ),
    Mutant(
        "V16",
        _SERVER,
        "if connection.asking or len(connection.buffer) < connection.need:",
        "if len(connection.buffer) < connection.need:",
        "requests sent ahead are answered while an earlier one still waits",
        (_SERVED + "test_requests_sent_ahead_are_answered_in_order",),
    ),
    Mutant(
        "V17",
        "hvdlite/rendezvous/addresses.py",
        "                return address, result\n",
        "                return addresses[0], result\n",
        "ranks are told the first address of the store instead of the one that answers",
        (
            "tests/unit/test_rendezvous_addresses.py::test_the_address_behind_which_the_secret_is_known_is_found_among_others",
        ),
    ),
    Mutant(
        "V18",
        "hvdlite/rendezvous/quota.py",
        "        self._left_out += 1\n        return False\n",
        "        return True\n",
        "strangers fill the launcher's log",
        (
            "tests/unit/test_rendezvous_quota.py::test_the_first_few_are_written_and_the_others_counted_once_per_interval",
        ),
    ),
    Mutant(
        "V22",
        "hvdlite/bootstrap/by_socket.py",
        'problem = "" if self._to_everybody else why_not(',
        'problem = "" if True else why_not(',
        "rank 0 tells the job's secret to every user of the host",
        (
            "tests/unit/test_bootstrap.py::test_another_user_who_knows_all_that_can_be_known_hears_nothing",
        ),
    ),
    Mutant(
        "V19",
        "hvdlite/bootstrap/by_socket.py",
        'problem = "" if has_secret else why_not(',
        'problem = "" if True else why_not(',
        "ranks believe another user who listens in place of rank 0",
        (
            "tests/unit/test_bootstrap.py::test_another_user_who_listens_in_place_of_rank_0_is_not_believed",
        ),
    ),
    Mutant(
        "V20",
        "hvdlite/bootstrap/offer.py",
        'return hmac.digest(secret, b"hvdlite job " + job.encode(), "sha256")',
        "return secret",
        "jobs that are given one secret have one key, and let one another's ranks in",
        ("tests/unit/test_bootstrap.py::test_a_secret_for_many_jobs_is_no_jobs_own",),
    ),
    Mutant(
        "V21",
        "hvdlite/launch/secret.py",
        "if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):",
        "if status.st_mode & stat.S_IRWXO:",
        "a secret that the whole group can read is taken",
        ("tests/unit/test_environment.py::test_a_file_that_others_can_open_is_refused",),
    ),
)
