// NetWork: the base of all algorithms over links: a turn, and the three results of Advance().
#pragma once

#include "comm/communicator.h"
#include "comm/net/wire.h"

namespace hvdlite::comm::net {

class NetWork : public Work {
 public:
  explicit NetWork(Wire* wire) : wire_(*wire) { wire_.BeginWork(); }
  // An abandoned work must leave no waits behind. A finished work clears none, because it may
  // outlive the start of the next.
  ~NetWork() override {
    if (!finished_) wire_.BeginTurn();
  }
  NetWork(const NetWork&) = delete;
  NetWork& operator=(const NetWork&) = delete;

  Progress Advance() final {
    wire_.BeginTurn();
    bool done = false;
    Status status = Turn(&done);
    if (status.ok() && !done) return wire_.spent() > 0 ? Progress::kSome : Progress::kNone;
    finished_ = true;
    wire_.BeginTurn();
    return done ? Progress::kDone : Fail(std::move(status));
  }

 protected:
  // Moves whatever can move, about a piece in total. Sets *done when nothing is left to do.
  virtual Status Turn(bool* done) = 0;

  Wire& wire_;

 private:
  bool finished_ = false;
};

}  // namespace hvdlite::comm::net
