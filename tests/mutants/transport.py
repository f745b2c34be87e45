"""Faults of csrc/transport and csrc/rendezvous: who may come in, which bytes arrive, who is
where."""

from __future__ import annotations

from mutants.mutant import Mutant

_NEIGHBOURS = "C++ Neighbours.*"

MUTANTS = (
    Mutant(
        "C4",
        "csrc/transport/tcp/handshake.cc",
        "if (received <= kMagic.size() || purpose == static_cast<uint8_t>(purpose_)) return",
        "if (received <= kMagic.size() || purpose <= 1) return",
        "a connection for the store is served as a link",
        ("C++ Handshake.AnotherPurposeIsRefused",),
    ),
    Mutant(
        "T1",
        "csrc/transport/tcp/handshake.cc",
        "if (EqualInConstantTime(proof.data(), in_.data(), proof.size())) return Status::Ok();",
        "return Status::Ok();",
        "a client without the secret gets a link",
        ("C++ Handshake.AClientWithoutTheSecretIsRefused", "C++ LinkMesh.AWrongSecretGetsNoLink"),
    ),
    Mutant(
        "T2",
        "csrc/transport/tcp/handshake.cc",
        "message.append(server.begin(), server.end());",
        "",
        "a proof does not depend on the server's nonce: a recorded one opens the door again",
        ("C++ Handshake.ARecordingIsWorthless", "C++ LinkMesh.ARecordedHandshakeIsWorthless"),
    ),
    Mutant(
        "T3",
        "csrc/transport/tcp/handshake.cc",
        "Deadline::After(deadline.Left(kHandshakeSpan))",
        "deadline",
        "a stranger may stand in the door for ever",
        (
            "C++ Handshake.AServerGivesAStrangerFiveSecondsAtMost",
            "C++ LinkMesh.WhoeverDawdlesIsShownOutAfterFiveSeconds",
        ),
        hangs=True,
    ),
    Mutant(
        "T4",
        "csrc/transport/tcp/link_listener.cc",
        "if (hello.to != me_.rank) return",
        "if (false) return",
        "a connection for another rank is kept open",
        ("C++ LinkMesh.AddressesThatLeadElsewhereCostLittle",),
    ),
    Mutant(
        "T5",
        "csrc/transport/frames.cc",
        "if (header.length > kMaxFrame || header.sequence != next_in_) {",
        "if (header.length > kMaxFrame) {",
        "a repeated or lost frame is not noticed",
        ("C++ Frames.a_frame_out_of_sequence_or_too_long_breaks_the_channel",),
    ),
    Mutant(
        "T6",
        "csrc/transport/frames.cc",
        "memmove(in_.data(), in_.data() + begin_, end_ - begin_);",
        "",
        "bytes of a frame that is cut in two are lost when the buffer is tidied",
        ("C++ Frames.*",),
    ),
    Mutant(
        "T7",
        "csrc/transport/shm/neighbours.cc",
        "if (segment_->line(socket_ranks_[i]).left.load(std::memory_order_seq_cst) != 0) continue;",
        "",
        "a rank that has left in order is reported as dead",
        ("C++ Neighbours.a_death_is_told_from_a_departure",),
    ),
    Mutant(
        "T8",
        "csrc/transport/shm/neighbours.cc",
        "!EqualInConstantTime(hello.proof.data(), Proof(secret, name, hello.local_rank).data(),",
        "hello.proof.data() == nullptr && !EqualInConstantTime(nullptr, nullptr,",
        "a process of this user without the secret gets the shared memory",
        ("C++ Neighbours.strangers_are_sent_away_and_do_no_harm",),
    ),
    Mutant(
        "T9",
        "csrc/transport/shm/doorbells.cc",
        "  if (--polling_ > 0) return;\n",
        "  --polling_;\n",
        "a thread that gets up takes away the ring that was meant for another one",
        ("C++ DoorbellsTest.several_sleepers_of_one_rank_all_hear_the_bell",),
        hangs=True,
    ),
    Mutant(
        "T10",
        "csrc/transport/shm/host_segment.cc",
        "if (!header_->abort_state.compare_exchange_strong(expected, 1, "
        "std::memory_order_acq_rel)) return;",
        "header_->abort_state.store(1);",
        "a later failure overwrites the first one",
        ("C++ HostSegment.the_first_failure_stays",),
    ),
    Mutant(
        "T11",
        "csrc/rendezvous/roster.cc",
        "place.cross_rank = cross_size[local]++;",
        "place.cross_rank = static_cast<int>(&host - made.hosts.data());",
        "cross ranks count hosts that do not have the local rank",
        ("C++ Roster.*",),
    ),
    Mutant(
        "T12",
        "csrc/rendezvous/member.cc",
        "if (!reader.rest().empty())",
        "if (false)",
        "a description with bytes behind its end is taken",
        ("C++ Member.*",),
    ),
    Mutant(
        "T13",
        "csrc/rendezvous/memory_store.cc",
        'const std::string below = key + "/";',
        "const std::string below = key;",
        "deleting a key deletes those that only begin alike",
        ("C++ MemoryStore.DeleteRemovesTheKeyAndAllBelowItOnly",),
    ),
    Mutant(
        "T14",
        "csrc/rendezvous/choose_address.cc",
        "if (also_mine) return same_host ? kCommonSubnet : kAlsoMine;",
        "",
        "a bridge that has the same address on every host is taken for the way to another host",
        ("C++ ChooseAddress.*",),
    ),
    Mutant(
        "T15",
        "csrc/rendezvous/tcp_store.cc",
        """  if (!reader.rest().empty()) {
    values->clear();
    return Status::Io("the reply of " + who_ + " to 'collect' is too long");
  }
""",
        "",
        "a reply that is too long is taken",
        ("C++ TcpStore.ACollectReplyThatDoesNotAddUpIsAnError",),
    ),
    Mutant(
        "T16",
        "csrc/transport/checked.cc",
        "if (in_so_far_ != in_check_) {",
        "if (false) {",
        "a payload that has changed on the way is handed out",
        ("C++ Checked.makes_an_error_that_names_the_connection_of_every_bit_that_changes",),
    ),
    Mutant(
        "T17",
        "csrc/transport/checked.cc",
        "if (header.header_check != header.Check())",
        "if (false)",
        "a length that has changed on the way is believed: the receiver waits for bytes that "
        "never come",
        ("C++ Checked.makes_an_error_that_names_the_connection_of_every_bit_that_changes",),
    ),
    Mutant(
        "T18",
        "csrc/transport/checked.cc",
        "header.sequence != in_sequence_ || ",
        "",
        "a frame that is lost or repeated is not noticed",
        ("C++ Checked.makes_an_error_of_frames_that_are_missing_repeated_or_exchanged",),
    ),
    Mutant(
        "T19",
        "csrc/comm/link_checks.h",
        "my_host != their_host",
        "my_host == their_host",
        "there are no check words between machines",
        ("C++ LinkChecks.are_made_between_machines_unless_the_knob_says_otherwise",),
    ),
    Mutant(
        "T20",
        "csrc/engine/outage.h",
        "return 2 * heartbeat + kSecond;",
        "return heartbeat;",
        "an outage that is shorter than the limit ends the job, because TCP has not tried "
        "again yet",
        (
            "C++ Outage."
            "that_is_shorter_than_the_heartbeats_limit_is_survived_whenever_the_kernels_try_again",
        ),
    ),
    Mutant(
        "T21",
        "csrc/engine/observe/vigil.cc",
        "if (world->multi_host()) agreement.SendAlive();\n  if (limit <= 0) return Status::Ok();",
        "if (limit <= 0) return Status::Ok();\n  if (world->multi_host()) agreement.SendAlive();",
        "a rank whose own limit is 0 gives no signs of life, and the others accuse it",
        ("C++ EngineHeartbeat.a_rank_without_a_limit_of_its_own_is_not_accused_by_the_others",),
    ),
    Mutant(
        "T22",
        "csrc/engine/negotiate/agree.cc",
        "    edge->heard = now;  // only whole frames count: a partial frame may never be "
        "completed\n",
        "",
        "no whole frame counts as a sign of life",
        ("C++ AgreementHeard.is_each_whole_frame",),
    ),
    Mutant(
        "T23",
        "csrc/transport/striped.cc",
        "if (!lanes_[i]->ended()) return status;",
        "return status;",
        "a rank that leaves in good order takes its last bytes on other interfaces along",
        ("C++ Striped.a_lane_that_the_peer_has_closed_does_not_hide_the_last_bytes_of_the_others",),
    ),
    Mutant(
        "T24",
        "csrc/transport/lanes.h",
        "if (known && cost > kMuchSlower * fastest) continue;",
        "",
        "a slow network card delays a fast one",
        ("C++ Lanes.a_slow_lane_never_makes_a_message_slower_than_the_fast_one_alone",),
    ),
)
