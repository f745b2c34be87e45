// Gathering: whether ready operations on GPUs wait for more of them. DECIDES.
//
// The program runs ahead of its GPU: while the device still computes the first gradient, many
// others become ready. Each batch costs the device a launch and the network a round, so few large
// batches take less time than many small ones.
#pragma once

#include <cstdint>
#include <functional>
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

// What the root of a set knows when operations are ready.
struct Readiness {
  std::vector<const Request*> ready;  // in the order in which they became ready
  bool more = false;                  // some members have announced others
  bool some_leave = false;            // or have joined
};

// `waited`: since the first operation became ready.
bool MayWaitForMore(const Readiness& now, Nanos waited, const GatherOptions& options);

class Gathering {
 public:
  explicit Gathering(const GatherOptions& options = {}) : options_(options) {}

  // `device_is_behind`: whether this rank's GPU would not begin the first operation now. Asked only
  // if it matters.
  bool Keeps(const Readiness& readiness, Nanos now, const std::function<bool()>& device_is_behind);
  // Whether it keeps operations: ask again soon.
  bool keeps() const { return since_ != 0; }

 private:
  GatherOptions options_;
  Nanos since_ = 0;
};

}  // namespace hvdlite::engine
