// Mesh: a Link between each two of a set of ranks.
//
//   rank 0 ◄── rank 1          the higher rank connects to the lower; all dial and answer
//     ▲  ▲       ▲             the door at the same time, so the order of arrival does not matter
//     │  └────── │ ── rank 3
//     └── rank 2 ┘
//
// Blocks up to its deadline or until its lookout has news: it runs at init() and when a process set
// is added, never during an operation. Thread-safety: one thread at a time per listener.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/until.h"
#include "transport/tcp/link.h"
#include "transport/tcp/link_listener.h"

namespace hvdlite::transport::tcp {

struct MeshPeer {
  int rank = 0;  // global
  // Where its LinkListener may be reached, the likeliest first: numbers rather than names. IPv4 and
  // IPv6.
  std::vector<Endpoint> candidates;
};

// Joins `me` (a global rank) to all `peers` but itself. On success (*links)[i] leads to peers[i]
// and is null for me. `group` and `generation` tell this mesh from others over the same listeners;
// all ranks pass the same, and no rank builds the same mesh twice. On failure *links is empty and
// the status names each peer that is missing, the addresses tried and what the system said;
// status.peer() is the first of them.
Status ConnectMesh(uint32_t group, uint32_t generation, int me, const std::vector<MeshPeer>& peers,
                   LinkListener* listener, const Secret& secret, const Until& until,
                   std::vector<std::unique_ptr<Link>>* links);

}  // namespace hvdlite::transport::tcp
