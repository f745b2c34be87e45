"""Faults of csrc/transport and csrc/rendezvous: who may come in, which bytes arrive, who is
where."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
C4: a connection for the store is served as a link
csrc/transport/tcp/handshake.cc
- if (received <= kMagic.size() || purpose == static_cast<uint8_t>(purpose_)) return
+ if (received <= kMagic.size() || purpose <= 1) return
C++ Handshake.AnotherPurposeIsRefused

T1: a client without the secret gets a link
csrc/transport/tcp/handshake.cc
- if (EqualInConstantTime(proof.data(), in_.data(), proof.size())) return Status::Ok();
+ return Status::Ok();
C++ Handshake.AClientWithoutTheSecretIsRefused
C++ LinkMesh.AWrongSecretGetsNoLink

T2: a proof does not depend on the server's nonce: a recorded one opens the door again
csrc/transport/tcp/handshake.cc
- message.append(server.begin(), server.end());
C++ Handshake.ARecordingIsWorthless
C++ LinkMesh.ARecordedHandshakeIsWorthless

T3: a stranger may stand in the door for ever
csrc/transport/tcp/handshake.cc
- Deadline::After(deadline.Left(kHandshakeSpan))
+ deadline
C++ Handshake.AServerGivesAStrangerFiveSecondsAtMost
C++ LinkMesh.WhoeverDawdlesIsShownOutAfterFiveSeconds
hangs

T4: a connection for another rank is kept open
csrc/transport/tcp/link_listener.cc
- if (hello.to != me_.rank) return
+ if (false) return
C++ LinkMesh.AddressesThatLeadElsewhereCostLittle

T5: a repeated or lost frame is not noticed
csrc/transport/frames.cc
- if (header.length > kMaxFrame || header.sequence != next_in_) {
+ if (header.length > kMaxFrame) {
C++ Frames.a_frame_out_of_sequence_or_too_long_breaks_the_channel

T6: bytes of a frame that is cut in two are lost when the buffer is tidied
csrc/transport/frames.cc
- memmove(in_.data(), in_.data() + begin_, end_ - begin_);
C++ Frames.*

T7: a rank that has left in order is reported as dead
csrc/transport/shm/neighbours.cc
- if (segment_->line(socket_ranks_[i]).left.load(std::memory_order_seq_cst) != 0) continue;
C++ Neighbours.a_death_is_told_from_a_departure

T8: a process of this user without the secret gets the shared memory
csrc/transport/shm/neighbours.cc
- !EqualInConstantTime(hello.proof.data(), Proof(secret, name, hello.local_rank).data(),
+ hello.proof.data() == nullptr && !EqualInConstantTime(nullptr, nullptr,
C++ Neighbours.strangers_are_sent_away_and_do_no_harm

T9: a thread that gets up takes away the ring that was meant for another one
csrc/transport/shm/doorbells.cc
-   if (--polling_ > 0) return;
+   --polling_;
C++ DoorbellsTest.several_sleepers_of_one_rank_all_hear_the_bell
hangs

T10: a later failure overwrites the first one
csrc/transport/shm/host_segment.cc
- if (!header_->abort_state.compare_exchange_strong(expected, 1, std::memory_order_acq_rel)) return;
+ header_->abort_state.store(1);
C++ HostSegment.the_first_failure_stays

T11: cross ranks count hosts that do not have the local rank
csrc/rendezvous/roster.cc
- place.cross_rank = cross_size[local]++;
+ place.cross_rank = static_cast<int>(&host - made.hosts.data());
C++ Roster.*

T12: a description with bytes behind its end is taken
csrc/rendezvous/member.cc
- if (!reader.rest().empty())
+ if (false)
C++ Member.*

T13: deleting a key deletes those that only begin alike
csrc/rendezvous/memory_store.cc
- const std::string below = key + "/";
+ const std::string below = key;
C++ MemoryStore.DeleteRemovesTheKeyAndAllBelowItOnly

T14: a bridge that has the same address on every host is taken for the way to another host
csrc/rendezvous/choose_address.cc
- if (also_mine) return same_host ? kCommonSubnet : kAlsoMine;
C++ ChooseAddress.*

T15: a reply that is too long is taken
csrc/rendezvous/tcp_store.cc
-   if (!reader.rest().empty()) {
-     values->clear();
-     return Status::Io("the reply of " + who_ + " to 'collect' is too long");
-   }
C++ TcpStore.ACollectReplyThatDoesNotAddUpIsAnError

T16: a payload that has changed on the way is handed out
csrc/transport/checked.cc
- if (in_so_far_ != in_check_) {
+ if (false) {
C++ Checked.makes_an_error_that_names_the_connection_of_every_bit_that_changes

T17: a length that has changed on the way is believed: the receiver waits for bytes that never come
csrc/transport/checked.cc
- if (header.header_check != header.Check())
+ if (false)
C++ Checked.makes_an_error_that_names_the_connection_of_every_bit_that_changes

T18: a frame that is lost or repeated is not noticed
csrc/transport/checked.cc
- header.sequence != in_sequence_ ||
C++ Checked.makes_an_error_of_frames_that_are_missing_repeated_or_exchanged

T19: there are no check words between machines
csrc/comm/link_checks.h
- my_host != their_host
+ my_host == their_host
C++ LinkChecks.are_made_between_machines_unless_the_knob_says_otherwise

T20: an outage that is shorter than the limit ends the job, because TCP has not tried again yet
csrc/engine/outage.h
- return 2 * heartbeat + kSecond;
+ return heartbeat;
C++ Outage.that_is_shorter_than_the_heartbeats_limit_is_survived_whenever_the_kernels_try_again

T21: a rank whose own limit is 0 gives no signs of life, and the others accuse it
csrc/engine/observe/vigil.cc
- if (world->multi_host()) agreement.SendAlive();
-   if (limit <= 0) return Status::Ok();
+ if (limit <= 0) return Status::Ok();
+   if (world->multi_host()) agreement.SendAlive();
C++ EngineHeartbeat.a_rank_without_a_limit_of_its_own_is_not_accused_by_the_others

T22: no whole frame counts as a sign of life
csrc/engine/negotiate/agree.cc
-     edge->heard = now;  // only whole frames count: a partial frame may never be completed
C++ AgreementHeard.is_each_whole_frame

T23: a rank that leaves in good order takes its last bytes on other interfaces along
csrc/transport/striped.cc
- if (!lanes_[i]->ended()) return status;
+ return status;
C++ Striped.a_lane_that_the_peer_has_closed_does_not_hide_the_last_bytes_of_the_others

T24: a slow network card delays a fast one
csrc/transport/lanes.h
- if (known && cost > kMuchSlower * fastest) continue;
C++ Lanes.a_slow_lane_never_makes_a_message_slower_than_the_fast_one_alone

T25: of two ranks without a way to each other the one that has noticed it is the lost one
csrc/transport/tcp/mesh.cc
- std::vector<int> ranks{peers[missing.front().index].rank, me};
+ std::vector<int> ranks{me, peers[missing.front().index].rank};
C++ LinkMesh.AMissingPeerIsNamedWithItsAddressAndTheSystemsWord

T26: a failure comes to the other ranks of a host without its cause
csrc/transport/shm/host_segment.cc
- header_->abort_cause = static_cast<uint8_t>(status.cause());
C++ HostSegment.the_first_failure_stays
""")
