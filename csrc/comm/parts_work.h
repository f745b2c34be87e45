// PartsWork: the Work of a large batch that goes in parts. Whole tensors travel first (whole.h).
// Then local stages of some parts are performed while the bytes of others travel.
//
// Derived classes say which exchanges there are, in an order that all members share, and what can
// be done here.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "comm/batch.h"
#include "comm/communicator.h"
#include "comm/exchanges.h"

namespace hvdlite::comm {

class PartsWork : public Work {
 public:
  Progress Advance() final;

 protected:
  // `whole`: the batch of whole tensors, perhaps empty.
  PartsWork(Communicator* over, Batch whole);

  // The next exchange, if its inputs are there, else null. It is added.
  virtual const Batch* NextExchange() = 0;
  // Works on one stretch, first on what others wait for. Sets *worked unless nothing can be done
  // now.
  virtual Status WorkHere(bool* worked) = 0;
  // Whether all stages of all parts have been performed.
  virtual bool has_all() const = 0;

  // How many exchanges have ended.
  size_t ended() const { return exchanges_ == nullptr ? 0 : exchanges_->ended(); }

 private:
  // The progress of what travels.
  Progress Travel();
  Progress Result(Progress travels) const;

  Communicator* const over_;
  const Batch whole_;
  std::unique_ptr<Work> whole_travels_;
  std::unique_ptr<Exchanges> exchanges_;  // null until whole tensors have arrived
};

}  // namespace hvdlite::comm
