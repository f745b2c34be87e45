// Outages: how long nothing that this rank has sent over a connection has been acknowledged.
// DECIDES; pure.
//
// A peer's kernel acknowledges bytes even if its process is stopped or does not read. So if nothing
// is acknowledged, the network between the two hosts or one of the hosts is down, or packets of
// some size are lost. A kernel whose packets are lost doubles its wait before each further attempt:
// after an outage of L seconds the next attempt comes within 2 L at the latest. Hence two rules.
// - An outage ends the job after LongestOutage(), never within the heartbeat's limit.
// - A peer's silence counts only while the connection to it works: no rank is blamed for the
//   network.
//
// As in Silences, time counts only while this rank itself looked.
#pragma once

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "transport/transport.h"

namespace hvdlite::engine {

constexpr Nanos LongestOutage(Nanos heartbeat) {
  return 2 * heartbeat + kSecond;
}

class Outages {
 public:
  explicit Outages(Nanos longest_step) : longest_step_(longest_step) {}

  // Call before asking about any connection. The first call sets the time from which outages count.
  void Look(Nanos now) {
    std::erase_if(outages_, [this](const auto& entry) {
      return entry.second.seen != last_look_;
    });  // gone meanwhile
    passed_ = std::min(now - last_look_, longest_step_);
    last_look_ = now;
  }

  // Call once after each look. Returns 0 if the connection works.
  Nanos Of(const void* connection, const transport::Transport::Acknowledged& seen) {
    Outage& outage = outages_[connection];
    const bool stands = seen.known && seen.waiting && outage.waiting && seen.bytes == outage.bytes;
    outage = {seen.bytes, seen.waiting, stands ? outage.span + passed_ : 0, last_look_};
    return outage.span;
  }
  bool Open(const void* connection) const {
    const auto found = outages_.find(connection);
    return found == outages_.end() || found->second.span == 0;
  }

 private:
  struct Outage {
    uint64_t bytes = 0;
    bool waiting = false;
    Nanos span = 0;
    Nanos seen = 0;  // the time of the look
  };
  const Nanos longest_step_;
  Nanos last_look_ = 0;
  Nanos passed_ = 0;
  std::map<const void*, Outage> outages_;
};

}  // namespace hvdlite::engine
