// Direct plans: each tensor goes from its input to its output, without a buffer.
#include <algorithm>

#include "comm/nccl/planner.h"

namespace hvdlite::comm::nccl {

namespace {

bool AllEqual(const std::vector<int64_t>& counts) {
  return std::all_of(counts.begin(), counts.end(),
                     [&](int64_t count) { return count == counts[0]; });
}

}  // namespace

bool Planner::DirectReduction() {
  if (!nccl_averages_) return steps_.changes_after;
  op_ = kAvg;
  plan_.scale_after.first = 1.0;
  return batch_.reduce.postscale != 1.0;
}

void Planner::DirectAllreduce() {
  const bool changes_after = DirectReduction();
  for (const Piece* piece : pieces_) {
    const size_t bytes = Bytes(piece->count);
    if (steps_.changes_before) Before(piece->input, piece->output, bytes);
    Allreduce(steps_.changes_before ? piece->output : piece->input, piece->output, bytes);
    if (changes_after) After(piece->output, piece->output, bytes);
  }
}

void Planner::DirectReducescatter() {
  const bool changes_after = DirectReduction();
  for (const Piece* piece : pieces_) {
    const size_t mine = Bytes(piece->counts[me()]);
    if (AllEqual(piece->counts)) {
      Do(What::kReduceScatter, piece->input, piece->output, mine);
    } else {
      size_t offset = 0;
      for (int m = 0; m < context_.size; ++m) {
        const size_t bytes = Bytes(piece->counts[static_cast<size_t>(m)]);
        Do(What::kReduce, At(piece->input, offset), m == context_.me ? piece->output : nullptr,
           bytes, m);
        offset += bytes;
      }
    }
    if (changes_after) After(piece->output, piece->output, mine);
  }
}

void Planner::DirectBroadcast() {
  for (const Piece* piece : pieces_) {
    void* const output = piece->output != nullptr ? piece->output : const_cast<void*>(piece->input);
    Do(What::kBroadcast, context_.me == batch_.root ? piece->input : output, output,
       Bytes(piece->count), batch_.root);
  }
}

void Planner::DirectAllgather() {
  for (const Piece* piece : pieces_) {
    if (AllEqual(piece->counts)) {
      Do(What::kAllGather, piece->input, piece->output, Bytes(piece->counts[0]));
      continue;
    }
    size_t offset = 0;
    for (int m = 0; m < context_.size; ++m) {
      const size_t bytes = Bytes(piece->counts[static_cast<size_t>(m)]);
      char* const part = At(piece->output, offset);
      Do(What::kBroadcast, m == context_.me ? piece->input : part, part, bytes, m);
      offset += bytes;
    }
  }
}

void Planner::DirectAlltoall() {
  for (const Piece* piece : pieces_) {
    size_t sent = 0;
    size_t received = 0;
    for (size_t m = 0; m < members(); ++m) {
      const size_t to = Bytes(piece->counts[me() * members() + m]);
      const size_t from = Bytes(piece->counts[m * members() + me()]);
      Do(What::kSend, At(piece->input, sent), nullptr, to, static_cast<int>(m));
      Do(What::kReceive, nullptr, At(piece->output, received), from, static_cast<int>(m));
      sent += to;
      received += from;
    }
  }
}

}  // namespace hvdlite::comm::nccl
