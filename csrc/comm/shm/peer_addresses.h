// PeerAddresses: where the tensors of a batch lie on each member of a host, and which of them all
// members share, so that they may be read and written in place.
//
//   Ask          my slot: where each of my tensors lies in my segment, or that it lies elsewhere;
//                `in`. Done when I have read the tables of all members: they agree without a word
//   Release      I no longer touch others' tensors; `mid`
//   AllReleased  nor does any other member touch mine
//
// It takes one step of the region. A tensor can be shared if its result takes its place. What a
// member says of its tensors is checked. If this object ends before all have released the tensors,
// another member may still write: then my segment is retired, and the program gets private memory
// back.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "comm/shm/region.h"
#include "pool/peers.h"

namespace hvdlite::comm::shm {

struct SharedTensors {
  const pool::Peers* peers = nullptr;  // borrowed; null: nothing is shared
  std::vector<int> local_ranks;        // of the members

  // Whether a table about so many tensors fits into a slot.
  static bool Fits(size_t tensors, size_t slot_bytes) {
    return tensors * sizeof(int64_t) <= slot_bytes;
  }
};

class PeerAddresses {
 public:
  // Of each member's tensor, for one call of Advance(): an abort is noticed between two calls.
  static constexpr size_t kBytesAtOnce = 256 << 10;

  // Borrows everything.
  PeerAddresses(Region* region, const SharedTensors& shared, const Batch& batch);
  ~PeerAddresses();
  PeerAddresses(const PeerAddresses&) = delete;
  PeerAddresses& operator=(const PeerAddresses&) = delete;

  // Like Work::Advance. After kDone the rest may be called.
  Progress Ask();
  const Status& status() const { return status_; }

  // Whether all members share this tensor.
  bool Shares(size_t piece) const;
  // Whether they share any.
  bool any() const { return any_; }
  int members() const { return region_->members(); }
  char* Tensor(size_t member, size_t piece) const;

  // The failure of a member that names a place outside its shared memory.
  static Status OutsideItsMemory(int local_rank);

  void Release() { region_->Post(Flag::kMid, step_ + 1); }
  bool AllReleased() const { return region_->AllReached(Flag::kMid, step_ + 1); }

 private:
  size_t Members() const { return static_cast<size_t>(region_->members()); }
  size_t BytesOf(size_t piece) const;
  int64_t* TableOf(size_t member) { return offsets_.data() + member * batch_.pieces.size(); }
  void PublishMine();
  Status ReadAll();
  void StopLending();

  Region* const region_;
  const uint64_t step_;
  const SharedTensors& shared_;
  const Batch& batch_;
  std::vector<int64_t> offsets_;  // of each member, of each piece; negative: elsewhere
  Status status_;
  bool published_ = false;
  bool any_ = false;
  // Between BeginLending() and EndLending(): others may write into my tensors until it is over.
  bool lends_ = false;
};

}  // namespace hvdlite::comm::shm
