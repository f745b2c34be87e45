// TcpStore: a connection to the store server of the job (hvdlite/rendezvous/server.py,
// docs/how-it-works/wire.md).
//
// Thread-safety: any thread, one request at a time: while a Get or Collect waits, calls of other
// threads wait as well (each to its own deadline). A thread that has to wait long takes a
// connection of its own. Failure: sentences name the server's address and what to check. A
// connection on which a reply did not come or made no sense is not used again: later calls repeat
// the first error, because a late reply would be taken for the answer to another question.
//
// After Join the connection carries this rank's last will: if it ends before all ranks have
// arrived, the server tells the others that this rank is lost. So it must not outlive the process
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
  // Connects and shakes hands. Repeats an unanswered attempt until the deadline,
  // because the server may start later than this rank; a wrong secret fails at once.
  static Status Connect(const transport::tcp::Endpoint& server,
                        const transport::tcp::Secret& secret, Deadline deadline,
                        std::unique_ptr<TcpStore>* store);

  // A connection whose handshake is over: for tests that play the server.
  static std::unique_ptr<TcpStore> Adopt(Fd fd, std::string who) {
    return std::unique_ptr<TcpStore>(new TcpStore(std::move(fd), std::move(who)));
  }

  Status Set(const std::string& key, const std::string& value) override;
  Status Get(const std::string& key, Deadline deadline, std::string* value) override;
  Status Collect(const std::string& key, int n, Deadline deadline,
                 std::vector<std::string>* values) override;
  Status Add(const std::string& key, int64_t amount, int64_t* sum) override;
  Status Delete(const std::string& key) override;

  // Speaks for `rank` from now on. `meeting` names what all ranks of the job join; *prefix is for
  // the keys of this attempt, which are fresh after each attempt that failed.
  Status Join(const std::string& meeting, int rank, int size, std::string* prefix);
  Status Look() override;
  Status Arrive(Deadline deadline) override;
  Status Fail(const Status& why) override;

  // For a forked child to close.
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
    Deadline wait =
        Deadline::After(0);      // how long the server itself may take; get, collect and arrive
    uint32_t argument = 0;       // of the others
    Nanos patience = kPatience;  // with the server, on top of the wait
  };
  // How long the server may take for what needs no waiting, and for the reply on top of a wait that
  // it was asked for. Generous: a launcher on a loaded login node, 64 MiB over a slow network.
  static constexpr Nanos kPatience = 60 * kSecond;

  // One question, one reply.
  Status Ask(const Question& question, std::string* reply);
  Status Exchange(const std::string& request, Deadline deadline, std::string* reply);
  Status ReadReply(Deadline deadline, std::string* reply);
  // What a reply says that ends the meeting.
  Status Verdict(const std::string& bytes) const;
  // Why the connection is of no more use.
  Status Broken(const Status& why, const std::string& doing) const;

  const std::string who_;  // "the job's store at 10.0.0.5:4000"
  Mutex mutex_;
  CondVar idle_;
  bool busy_ GUARDED_BY(mutex_) = false;
  // Of the thread that set busy_:
  Fd fd_;
  uint32_t sequence_ = 0;
  Status broken_;
  Status verdict_;       // broken_, if it is what the server says about the meeting
  std::string meeting_;  // empty: has not joined
  int rank_ = -1;
  int served_by_ = -1;  // the rank whose process is the server
};

}  // namespace hvdlite::rendezvous
