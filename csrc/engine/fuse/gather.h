// Decides whether ready operations on GPUs wait for more of them. DECIDES; pure.
//
// The program runs ahead of its GPU: while the device still computes the first gradient, many others
// become ready. Each batch costs the device a launch and the network a round, so few large batches
// take less time than many small ones.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "engine/message.h"

namespace hvdlite::engine {

struct GatherOptions {
  // The bytes that are worth a batch: the device reduces them while it computes the next gradients.
  int64_t enough = 32 << 20;
  // The longest wait; 0: none. A rank may wait for a result before it does what the root's device
  // waits for, so a wait must end by itself.
  Nanos longest = 0;
};

// `ready`: in the order in which they became ready. `waited`: since the first did.
bool MayWaitForMore(const std::vector<const Request*>& ready, Nanos waited,
                    const GatherOptions& options);

}  // namespace hvdlite::engine
