#include "engine/observe/recorder.h"

#include <algorithm>
#include <cstring>

namespace hvdlite::engine {

void Recorder::Add(Record record, const std::string& name) {
  MutexLock lock(mutex_);
  record.number = count_++;
  if (ring_.empty()) return;
  const size_t n = std::min(name.size(), record.name.size() - 1);
  memcpy(record.name.data(), name.data(), n);
  ring_[record.number % ring_.size()] = record;
}

std::vector<Record> Recorder::Recent() {
  MutexLock lock(mutex_);
  std::vector<Record> out;
  if (ring_.empty()) return out;
  for (uint64_t i = count_ > ring_.size() ? count_ - ring_.size() : 0; i < count_; ++i)
    out.push_back(ring_[i % ring_.size()]);
  return out;
}

}  // namespace hvdlite::engine
