"""Faults of csrc/pool and of the allreduce in place: whose memory a gradient lies in, and which
ranks may write there."""

from __future__ import annotations

from mutants.mutant import faults

MUTANTS = faults(r"""
GP1: a rank that was given up writes into a gradient of this one
csrc/pool/segment.cc
- may still end its pass.
-   MakePrivate();
+ may still end its pass.
C++ PoolSegment.once_retired_others_cannot_reach_its_blocks
C++ ShmInPlaceTrust.a_pass_that_is_given_up_leaves_private_memory_behind

GP2: a pass that does not end leaves the gradients within reach of the others
csrc/comm/shm/peer_addresses.cc
-   if (!AllReleased()) shared_.peers->own()->Retire();
C++ ShmInPlaceTrust.a_pass_that_is_given_up_leaves_private_memory_behind
C++ HierarchicalInPlaceTrust.what_is_given_up_leaves_private_memory_behind

GP3: an offset of another rank leads beyond its segment
csrc/pool/peers.cc
- if (bytes > its.bytes - static_cast<size_t>(offset)) return nullptr;
C++ PoolPeers.an_offset_outside_the_segment_leads_nowhere

GP4: a tensor counts as shared although one member has it elsewhere
csrc/comm/shm/peer_addresses.cc
- if (offsets_[m * batch_.pieces.size() + piece] < 0) return false;
+ if (offsets_[m * batch_.pieces.size() + piece] < 0 && m == 0) return false;
C++ ShmInPlaceTrust.a_member_that_could_not_map_the_others_has_all_tensors_copied

GP5: a forked child has no gradients
csrc/pool/segment.cc
-   if (lending_ == 0 && !retired()) MakePrivate();
C++ PoolFork.the_child_has_the_values_of_that_moment_and_memory_of_its_own

GP6: a child without handlers writes into its parent's gradients
csrc/pool/segment.cc
- !KeepFromChildren(base, bytes)
+ bytes == 0
C++ PoolFork.a_child_without_these_handlers_shares_nothing

GP7: activations and optimizer state take the blocks of gradients
csrc/pool/pool.cc
-   if (now == outside_.load(std::memory_order_relaxed)) return false;
C++ Pool.hands_out_nothing_outside_the_gate_or_unless_it_is_armed

GP8: a forked child keeps the memory that it frees
csrc/pool/pool.h
- return Contains(block) && (!disowned() || SizeOf(block) != 0);
+ return Contains(block);
C++ Pool.in_a_child_only_inherited_blocks_are_its_own
C++ PoolSlots.a_forked_childs_own_memory_is_the_c_librarys

GP9: large gradients lie on small pages
csrc/pool/segment.cc
- *at = bytes < kHugePage ? end : RoundUp(end, kHugePage);
+ *at = end;
C++ PoolHugePagesAnywhere.large_blocks_begin_on_one_and_small_ones_on_a_page

GP10: addresses beside another rank's gradients are never given back
csrc/pool/memory.h
-   bytes = RoundToPages(bytes);  // munmap() refuses the rest of a page
C++ PoolAddresses.are_whole_pages_and_no_more

GP11: memory of freed tensors never goes back to the system
csrc/pool/tensors.cc
-   fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE
+   if (bytes_ == 0) fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE
C++ PoolTensors.freed_memory_goes_back_to_the_system_beyond_what_is_kept

GP12: after a fork, most tensors of the program are copied for good
csrc/pool/segment.cc
- if (bytes != its->AskedFor(static_cast<uint32_t>(page))) return -1;
+ if (bytes != its->bytes) return -1;
C++ PoolTensors.a_whole_tensor_is_in_the_file_again_when_it_is_lent_after_a_fork

GP13: a rank of a hierarchical job gets its tensor back while others still write there
csrc/comm/hierarchical/in_place.cc
- return in_place().addresses->AllReleased() ? Progress::kDone : Progress::kNone;
+ return Progress::kDone;
C++ On/HierarchicalInPlace.gives_the_bits_of_the_way_by_copies/aabb
C++ On/HierarchicalInPlace.leaves_the_segments_as_they_are/aabb
""")
