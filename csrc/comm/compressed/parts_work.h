// PartsWork: the Work of a large batch that goes in parts: local stages of some parts are performed
// while the bytes of others travel. Whole tensors (split.h) travel first: among the exchanges of
// the parts, where those overlap and the tensors are small, else as in any allreduce.
//
//   exchanges  whole contributions | two of the parts | whole results | others of the parts
//
// Derived classes say which exchanges there are, in an order that all members share, and what can
// be done here.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "comm/batch.h"
#include "comm/communicator.h"
#include "comm/compressed/whole_tensors.h"

namespace hvdlite::comm::compressed {

class PartsWork : public Work {
 public:
  Progress Advance() final;

 protected:
  // `whole`: the batch of whole tensors, perhaps empty.
  PartsWork(Communicator* over, Batch whole, int me, int members);

  int me() const { return me_; }
  int members() const { return members_; }

  // How many exchanges the parts have.
  virtual size_t exchanges() const = 0;

  // The exchange of this number, if its inputs are there, else null. Each is given once, in order.
  virtual const Batch* Exchange(size_t number) = 0;
  // Works on one stretch, first on what others wait for. Sets *worked unless nothing can be done
  // now.
  virtual Status WorkHere(bool* worked) = 0;
  // Whether all stages of all parts have been performed.
  virtual bool has_all() const = 0;

  // How many exchanges of the parts have ended.
  size_t ended() const;

 private:
  // The next exchange to be added, of whole tensors or of the parts, if its inputs are there.
  const Batch* Next();
  // The number of the exchange of whole results.
  size_t WholeResultsAt() const;
  // How many of the first exchanges are those of the parts.
  size_t OfParts(size_t exchanges) const;
  // The progress of what travels.
  Progress Travel();
  Progress Result(Progress travels) const;

  Communicator* const over_;
  const int me_, members_;
  const Batch whole_;
  std::unique_ptr<Work> whole_travels_;
  std::unique_ptr<WholeTensors> among_them_;  // the whole tensors, if they travel so
  bool whole_arrived_ = false;
  std::unique_ptr<Exchanges> exchanges_;  // null while whole tensors travel alone
  size_t added_ = 0;                      // exchanges
};

}  // namespace hvdlite::comm::compressed
