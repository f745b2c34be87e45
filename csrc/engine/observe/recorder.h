// Recorder: the last collectives of this rank. It is always on, so that after a failure one can see
// what led to it.
//
// It is a ring of fixed-size records: no allocation, a few dozen nanoseconds per operation.
// Thread-safety: Add for the holder of the turn; Recent from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/mutex.h"
#include "base/ops.h"

namespace hvdlite::engine {

struct Record {
  uint64_t number = 0;  // counts this rank's operations since init
  int set = 0;
  OpKind kind = OpKind::kAllreduce;
  DType dtype = DType::kUInt8;
  bool failed = false;
  const char* communicator = "";  // a literal; empty: nothing was moved
  int64_t bytes = 0;              // of the result
  uint32_t batch_size = 0;        // operations in the batch
  Nanos submitted = 0;            // by the user; the others follow in this order
  Nanos agreed = 0;               // all ranks have asked
  Nanos done = 0;
  std::array<char, 80> name{};  // cut if longer
};

class Recorder {
 public:
  explicit Recorder(size_t entries) : ring_(entries) {}

  void Add(Record record, const std::string& name) EXCLUDES(mutex_);
  // Oldest first.
  std::vector<Record> Recent() EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::vector<Record> ring_ GUARDED_BY(mutex_);
  uint64_t count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace hvdlite::engine
