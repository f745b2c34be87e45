// FastInPlace: what the members of a FastExchange do with a tensor that lies in memory which all of
// them share. They offer its place instead of its bytes. Each member then reads its share of
// everyone's tensor and writes the result into all of them, as in in_place.h, with the same bits.
//
//   Lend          this member's tensor; then Offer, and arrive at the exchange
//   Accept        of a complete exchange: where the others' tensors lie
//   Reduce        this member's share; then it has finished
//   AllFinished   so have the others
//
// If it ends before all have finished, others may still write into this member's tensor: then its
// segment is retired, and the program gets private memory back. Lifetime: borrows all.
// Thread-safety: one thread at a time (the holder of the engine's turn).
#pragma once

#include <cstddef>
#include <vector>

#include "comm/shm/fast_exchange.h"
#include "comm/shm/peer_addresses.h"
#include "kernels/reduce.h"

namespace hvdlite::comm::shm {

class FastInPlace {
 public:
  static constexpr size_t kMostBytes = 256 << 10;  // of a tensor

  FastInPlace(FastExchange* exchange, const SharedTensors& shared, size_t bytes)
      : exchange_(*exchange), shared_(shared), bytes_(bytes) {}
  ~FastInPlace();
  FastInPlace(const FastInPlace&) = delete;
  FastInPlace& operator=(const FastInPlace&) = delete;

  // Returns false if the tensor lies elsewhere.
  bool Lend(void* tensor);
  void Offer();
  // Fails if a member has named a place outside its memory.
  Status Accept();
  void Reduce(const kernels::ReduceSpec& spec);
  // The exchange is no more. Others may still write into this member's tensor.
  void GiveUp();
  bool AllFinished() const { return exchange_.AllFinished(); }

 private:
  FastExchange& exchange_;
  const SharedTensors& shared_;
  const size_t bytes_;
  int64_t mine_ = -1;
  bool lends_ = false;
  bool accepted_ = false;  // others write into my tensor until all have finished
  std::vector<char*> tensors_;
};

}  // namespace hvdlite::comm::shm
