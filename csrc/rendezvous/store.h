// Store: a few bytes by key, shared by all ranks of a job. Ranks use it only to find one another.
//
// Implemented by TcpStore (the launcher's server) and MemoryStore (ranks as threads of one process,
// in tests). Keys are UTF-8 of 1 to 4096 bytes, and "/" groups them; values are bytes. Keys live
// until Delete, so callers put the incarnation of the job into their keys. Thread-safety: any
// thread. Failure: kTimeout when the deadline passed (the store stays usable), kInvalidArgument for
// a request that no store can serve, kIo when the store cannot be reached. A store that knows its
// ranks ends every call, waiting or later, with kPeerLost once a rank is lost before all have
// arrived.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace hvdlite::rendezvous {

constexpr size_t kMaxKeyBytes = 4096;
// More keys than ranks will ever need. Bounds the cost of one request.
constexpr size_t kMaxCollect = 1 << 20;

class Store {
 public:
  virtual ~Store() = default;

  virtual Status Set(const std::string& key, const std::string& value) = 0;
  // Waits until the key exists. To stay interruptible, call it repeatedly with short deadlines.
  virtual Status Get(const std::string& key, Deadline deadline, std::string* value) = 0;
  // Waits until key/0 ... key/(n-1) exist. A timeout names the missing ones.
  virtual Status Collect(const std::string& key, int n, Deadline deadline,
                         std::vector<std::string>* values) = 0;
  // Adds to a counter and returns the sum. A missing key counts as 0; the counter is 8 bytes,
  // little-endian.
  virtual Status Add(const std::string& key, int64_t amount, int64_t* sum) = 0;
  // Removes the key and every key below "key/". Removing what does not exist is fine.
  virtual Status Delete(const std::string& key) = 0;

  // The calls below are for the rendezvous. A store that cannot tell which rank has died
  // (MemoryStore) keeps these defaults.

  // Checks, without waiting, whether the rendezvous has failed.
  virtual Status Look() { return Status::Ok(); }
  // Reports that this rank has made all its connections, then waits until all ranks have. From then
  // on the ranks' connections detect deaths.
  virtual Status Arrive(Deadline) { return Status::Ok(); }
  // Tells the other ranks that this rank cannot join, because of `why`. Returns the error for this
  // rank's caller: `why`, or the failure that came first.
  virtual Status Fail(const Status& why) { return why; }
};

}  // namespace hvdlite::rendezvous
