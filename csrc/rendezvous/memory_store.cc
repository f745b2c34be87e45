#include "rendezvous/memory_store.h"

#include "rendezvous/bytes.h"

namespace hvdlite::rendezvous {
namespace {

// The number of missing keys that a timeout names: enough to see the pattern, few enough for one
// line. The server has the same number.
constexpr int kMostNamed = 64;

Status CheckKey(const std::string& key) {
  if (!key.empty() && key.size() <= kMaxKeyBytes) return Status::Ok();
  return Status::InvalidArgument("a key of the store has 1 to 4096 bytes, not " +
                                 std::to_string(key.size()));
}

}  // namespace

Status MemoryStore::Set(const std::string& key, const std::string& value) {
  HVDLITE_RETURN_IF_ERROR(CheckKey(key));
  MutexLock lock(mutex_);
  values_[key] = value;
  changed_.NotifyAll();
  return Status::Ok();
}

Status MemoryStore::Get(const std::string& key, Deadline deadline, std::string* value) {
  HVDLITE_RETURN_IF_ERROR(CheckKey(key));
  MutexLock lock(mutex_);
  while (true) {
    const auto found = values_.find(key);
    if (found != values_.end()) {
      *value = found->second;
      return Status::Ok();
    }
    if (deadline.Passed())
      return Status::Timeout("no rank set '" + key + "' in the store in this process in time");
    changed_.WaitFor(mutex_, deadline.Left(kSecond));
  }
}

Status MemoryStore::Collect(const std::string& key, int n, Deadline deadline,
                            std::vector<std::string>* values) {
  HVDLITE_RETURN_IF_ERROR(CheckKey(key));
  if (n < 0 || static_cast<size_t>(n) > kMaxCollect) {
    return Status::InvalidArgument("cannot collect " + std::to_string(n) + " keys");
  }
  MutexLock lock(mutex_);
  while (true) {
    values->clear();
    std::string missing;
    int left_out = 0;
    for (int i = 0; i < n; ++i) {
      const auto found = values_.find(key + "/" + std::to_string(i));
      if (found != values_.end()) {
        values->push_back(found->second);
      } else if (i - static_cast<int>(values->size()) - left_out >= kMostNamed) {
        ++left_out;
      } else {
        missing += (missing.empty() ? "" : ", ") + std::to_string(i);
      }
    }
    if (missing.empty()) return Status::Ok();
    if (deadline.Passed()) {
      if (left_out > 0) missing += " and " + std::to_string(left_out) + " more";
      values->clear();
      return Status::Timeout("of '" + key + "/0' to '" + key + "/" + std::to_string(n - 1) +
                             "' in the store in " +
                             "this process, these did not come in time: " + missing);
    }
    changed_.WaitFor(mutex_, deadline.Left(kSecond));
  }
}

Status MemoryStore::Add(const std::string& key, int64_t amount, int64_t* sum) {
  HVDLITE_RETURN_IF_ERROR(CheckKey(key));
  MutexLock lock(mutex_);
  const auto found = values_.find(key);
  int64_t value = 0;
  if (found != values_.end()) {
    if (found->second.size() != sizeof(int64_t)) {
      return Status::InvalidArgument("'" + key + "' in the store is not a counter");
    }
    value = LoadInteger<int64_t>(found->second.data());
  }
  if (__builtin_add_overflow(value, amount, &value)) {
    return Status::InvalidArgument("the counter '" + key + "' in the store would overflow");
  }
  std::string bytes;
  AppendInteger(&bytes, value);
  values_[key] = bytes;
  *sum = value;
  changed_.NotifyAll();
  return Status::Ok();
}

Status MemoryStore::Delete(const std::string& key) {
  HVDLITE_RETURN_IF_ERROR(CheckKey(key));
  MutexLock lock(mutex_);
  values_.erase(key);
  const std::string below = key + "/";
  auto entry = values_.lower_bound(below);
  while (entry != values_.end() && entry->first.compare(0, below.size(), below) == 0)
    entry = values_.erase(entry);
  return Status::Ok();
}

}  // namespace hvdlite::rendezvous
