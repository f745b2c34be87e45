// NanWatch: finds the first tensor with a NaN or an infinity among those that this rank submits for
// a reduction. It is silent once a result has had one: later ones may have come from other ranks.
//
// Reads every tensor once more before its reduction, and every result. Off by default.
// Thread-safety: for the holder of the turn.
#pragma once

#include <cstddef>
#include <string>

#include "comm/batch.h"
#include "engine/execute/running.h"

namespace hvdlite::engine {

// The first element that is no finite number; `count` if there is none. Of integers all are finite.
int64_t FirstNotFinite(DType dtype, const void* data, int64_t count);

class NanWatch {
 public:
  NanWatch(bool on, int rank) : on_(on), rank_(rank) {}

  // Before data of the batch move. Returns what to tell; empty: nothing.
  std::string Began(const Running& running);
  // When results are there.
  void Ended(const Running& running);

 private:
  bool on_;
  const int rank_;
};

}  // namespace hvdlite::engine
