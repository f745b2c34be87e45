// MemoryStore: a Store inside this process, for ranks that are threads of one test.
//
// Behaves as TcpStore does, including limits and messages. Must outlive the calls that wait in it.
#pragma once

#include <map>

#include "base/mutex.h"
#include "rendezvous/store.h"

namespace hvdlite::rendezvous {

class MemoryStore final : public Store {
 public:
  Status Set(const std::string& key, const std::string& value) override;
  Status Get(const std::string& key, Deadline deadline, std::string* value) override;
  Status Collect(const std::string& key, int n, Deadline deadline,
                 std::vector<std::string>* values) override;
  Status Add(const std::string& key, int64_t amount, int64_t* sum) override;
  Status Delete(const std::string& key) override;

 private:
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, std::string> values_ GUARDED_BY(mutex_);
};

}  // namespace hvdlite::rendezvous
