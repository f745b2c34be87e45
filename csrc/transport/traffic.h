// Traffic: the bytes that one network interface has carried for all Striped transports of a rank.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace hvdlite::transport {

struct Traffic {
  std::atomic<uint64_t> sent{0};
  std::atomic<uint64_t> received{0};
};

}  // namespace hvdlite::transport
