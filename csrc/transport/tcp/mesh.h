// Mesh: a Link between each two of a set of ranks.
//
//   rank 0 ◄── rank 1          the higher rank connects to the lower; all connect and accept
//     ▲  ▲       ▲             at the same time, so the order of arrival does not matter
//     │  └────── │ ── rank 3
//     └── rank 2 ┘
//
// Blocks until its deadline at most, or until its check reports an error. It runs at init() and
// when a process set is added, never during an operation. Thread-safety: one thread at a time per
// listener.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "base/until.h"
#include "transport/tcp/link.h"
#include "transport/tcp/link_dial.h"
#include "transport/tcp/link_listener.h"

namespace hvdlite::transport::tcp {

struct MeshPeer {
  int rank = 0;  // global
  // The addresses of its LinkListener, the likeliest first: numbers rather than names, IPv4 and
  // IPv6.
  std::vector<Endpoint> candidates;
  // Of several links with this rank: their numbers, from 0, and the interface of each at this end.
  uint32_t stream = 0;
  Origin origin = {};
};

// Connects the listener's rank to all `peers` but itself. On success (*links)[i] leads to
// peers[i]; the entry of this rank is null. `group` tells this mesh from others over the same
// listeners. All ranks pass the same value, and no rank builds the same mesh twice. On failure
// *links is empty. The status names each missing peer, the addresses tried and the system's
// errors; status.peer() is the first of them.
Status ConnectMesh(uint32_t group, const std::vector<MeshPeer>& peers, LinkListener* listener,
                   const Until& until, std::vector<std::unique_ptr<Link>>* links);

}  // namespace hvdlite::transport::tcp
