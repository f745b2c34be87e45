// Processors: how many of them the ranks of one host may use together.
//
// A launcher may pin each rank to a core of its own. A rank then sees one processor for all ranks
// of the host, although each rank has one. So every rank tells the others its mask
// (Member::processors), and the host has the union of the masks.
//
// Thread-safety: free functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvdlite::comm {

// The processors of this thread's affinity, as a mask: processor i is bit i % 8 of byte i / 8. The
// last byte is not zero. Empty: unknown.
std::string AllowedProcessors();

// How many processors this process's container may use at a time (cgroup v2). 0: no limit.
int ProcessorQuota();

// DECIDES. The number of processors in the union of `masks`, at most `quota` unless that is 0, and
// at least 1. A rank whose mask is empty adds none.
int CountProcessors(const std::vector<std::string_view>& masks, int quota);

}  // namespace hvdlite::comm
