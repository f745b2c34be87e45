// TcpStore: a connection to the job's store server (hvdlite/rendezvous/server.py,
// docs/how-it-works/wire.md).
//
// Thread-safety: any thread, one request at a time. While a Get or Collect waits, calls of other
// threads wait as well, each until its own deadline. A thread that has to wait long opens a
// connection of its own. Failure: sentences name the server's address and what to check. After a
// missing or invalid reply the connection is not used again: later calls repeat the first error,
// because a late reply would be taken for the answer to another request.
//
// After Join the connection stands for this rank: if it ends before all ranks have arrived, the
// server tells the others that this rank is lost. So the connection must not outlive the process
// (AbandonInChild in api/runtime).
#pragma once

#include <memory>

#include "base/mutex.h"
#include "rendezvous/store.h"
#include "transport/tcp/handshake.h"
#include "transport/tcp/socket.h"

namespace hvdlite::rendezvous {

class TcpStore final : public Store {
 public:
  // Connects and performs the handshake. Repeats an unanswered attempt until the deadline, because
  // the server may start later than this rank. A wrong secret fails at once.
  static Status Connect(const transport::tcp::Endpoint& server,
                        const transport::tcp::Secret& secret, Deadline deadline,
                        std::unique_ptr<TcpStore>* store);

  // Takes a connection whose handshake is over, for tests that play the server.
  static std::unique_ptr<TcpStore> Adopt(Fd fd, std::string who) {
    return std::unique_ptr<TcpStore>(new TcpStore(std::move(fd), std::move(who)));
  }

  Status Set(const std::string& key, const std::string& value) override;
  Status Get(const std::string& key, Deadline deadline, std::string* value) override;
  Status Collect(const std::string& key, int n, Deadline deadline,
                 std::vector<std::string>* values) override;
  Status Add(const std::string& key, int64_t amount, int64_t* sum) override;
  Status Delete(const std::string& key) override;

  // Registers this connection for `rank`. `name` names what all ranks of the job join. *prefix
  // is for the keys of this attempt; each attempt after a failed one gets a new prefix.
  Status Join(const std::string& name, int rank, int size, std::string* prefix);
  Status Look() override;
  Status Arrive(Deadline deadline) override;
  Status Fail(const Status& why) override;

  // For closing in a forked child.
  int fd() const { return fd_.get(); }

 private:
  enum class Operation : uint8_t {
    kSet = 1,
    kGet = 2,
    kCollect = 3,
    kAdd = 4,
    kDelete = 5,
    kJoin = 6,
    kArrive = 7,
    kFail = 8
  };

  TcpStore(Fd fd, std::string who) : who_(std::move(who)), fd_(std::move(fd)) {}

  struct Question {
    Operation operation;
    std::string key;
    std::string value = {};
    // how long the server itself may take, for get, collect and arrive
    Deadline wait = Deadline::After(0);
    uint32_t argument = 0;       // of the other operations
    Nanos patience = kPatience;  // how long to wait for the reply, in addition to `wait`
  };
  // How long the server may take for a request without waiting, and for the reply after a requested
  // wait. This is generous: a launcher on a loaded login node, 64 MiB over a slow network.
  static constexpr Nanos kPatience = 60 * kSecond;

  // Sends one request and reads its reply.
  Status Ask(const Question& question, std::string* reply);
  Status Exchange(const std::string& request, Deadline deadline, std::string* reply);
  Status ReadReply(Deadline deadline, std::string* reply);
  // The status in a reply that ends the rendezvous.
  Status Verdict(const std::string& bytes) const;
  // Why the connection cannot be used any more.
  Status Broken(const Status& why, const std::string& doing) const;

  const std::string who_;  // "the job's store at 10.0.0.5:4000"
  Mutex mutex_;
  CondVar idle_;
  bool busy_ GUARDED_BY(mutex_) = false;
  // These belong to the thread that set busy_.
  Fd fd_;
  uint32_t sequence_ = 0;
  Status broken_;
  Status verdict_;    // broken_, if it is what the server says about the rendezvous
  std::string name_;  // empty: has not joined
  int rank_ = -1;
  int served_by_ = -1;  // the rank whose process is the server
};

}  // namespace hvdlite::rendezvous
