// TcpStore: a connection to the store server of the job (hvdlite/rendezvous/server.py, docs/wire.md).
//
// Thread-safety: any thread, one request at a time: while a Get or Collect waits, calls of other threads wait
// as well (each to its own deadline). A thread that has to wait long takes a connection of its own. Failure:
// sentences name the server's address and what to check. A connection on which a reply did not come or made
// no sense is not used again: later calls repeat the first error, because a late reply would be taken for the
// answer to another question.
#pragma once

#include <memory>

#include "base/mutex.h"
#include "rendezvous/store.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/socket.h"

namespace hvdlite::rendezvous {

class TcpStore final : public Store {
 public:
  // Connects and shakes hands. Repeats an attempt to which nobody answered until the deadline, because the
  // server may start later than this rank; a wrong secret fails at once.
  static Status Connect(const transport::tcp::Endpoint& server, const transport::tcp::Secret& secret,
                        Deadline deadline, std::unique_ptr<TcpStore>* store);

  Status Set(const std::string& key, const std::string& value) override;
  Status Get(const std::string& key, Deadline deadline, std::string* value) override;
  Status Collect(const std::string& key, int n, Deadline deadline, std::vector<std::string>* values) override;
  Status Add(const std::string& key, int64_t amount, int64_t* sum) override;
  Status Delete(const std::string& key) override;

 private:
  enum class Operation : uint8_t { kSet = 1, kGet = 2, kCollect = 3, kAdd = 4, kDelete = 5 };

  TcpStore(Fd fd, std::string who) : who_(std::move(who)), fd_(std::move(fd)) {}

  // One request, one reply. `wait` is how long the server itself may take.
  Status Ask(Operation operation, const std::string& key, const std::string& value, Deadline wait,
             std::string* reply);
  Status Exchange(const std::string& request, Deadline deadline, std::string* reply);

  const std::string who_;  // "the job's store at 10.0.0.5:4000"
  Mutex mutex_;
  CondVar idle_;
  bool busy_ GUARDED_BY(mutex_) = false;
  // Of the thread that set busy_:
  Fd fd_;
  uint32_t sequence_ = 0;
  Status broken_;
};

}  // namespace hvdlite::rendezvous
