#include "comm/compressed/encoded_plan.h"

#include <algorithm>
#include <numeric>

#include "comm/flat.h"
#include "kernels/codec.h"

namespace hvdlite::comm::compressed {

namespace {

// So many bytes more are worth a step less.
constexpr int64_t kStepBytes = 1024;

}  // namespace

bool IsGathered(int64_t encoded_bytes, int members) {
  const int64_t n = members;
  // (n-1) bytes - 2 (n-1)/n bytes <= kStepBytes
  return (n - 1) * (n - 2) * encoded_bytes <= kStepBytes * n;
}

Share ShareOf(int64_t count, int64_t block, int members, int member, uint64_t tensor) {
  const auto blocks = static_cast<size_t>((count + block - 1) / block);
  const int first = static_cast<int>(tensor % static_cast<uint64_t>(members));
  const int part = (member - first + members) % members;
  const auto begin = static_cast<int64_t>(PartBegin(blocks, members, part)) * block;
  const auto end = static_cast<int64_t>(PartBegin(blocks, members, part + 1)) * block;
  return {std::min(begin, count), std::min(end, count)};
}

EncodedPlan::EncodedPlan(const Batch& batch, int me, int members)
    : me_(me),
      members_(members),
      contribution_(static_cast<size_t>(members)),
      result_(static_cast<size_t>(members)) {
  const int64_t block = kernels::BlockOf(batch.codec);
  int64_t contributed_elements = 0;
  int64_t my_results = 0;  // elements
  for (const Piece& piece : batch.pieces) {
    const bool gathered = IsGathered(kernels::EncodedBytes(batch.codec, piece.count), members);
    gathered_.push_back(gathered);
    has_results_ |= !gathered && piece.count > 0;
    sum_at_.push_back(summed_);
    for (int m = 0; m < members; ++m) {
      const Share share = gathered ? Share{0, piece.count}
                                   : ShareOf(piece.count, block, members, m, piece.coding.tensor);
      const int64_t bytes = kernels::EncodedBytes(batch.codec, share.count());
      shares_.push_back(share);
      contributed_.push_back(contribution_[static_cast<size_t>(m)]);
      contribution_[static_cast<size_t>(m)] += bytes;
      resulting_.push_back(result_[static_cast<size_t>(m)]);
      if (!gathered) result_[static_cast<size_t>(m)] += bytes;
      if (m == me) {
        summed_ += share.count();
        if (!gathered) my_results += share.count();
      } else {
        contributed_elements += share.count();
      }
    }
  }
  for (int m = 0; m < members; ++m) {
    if (m == me) continue;
    sent_bytes_ += Contribution(m) + Result(me);
    sent_elements_ += my_results;
  }
  sent_elements_ += contributed_elements;
}

int64_t EncodedPlan::SentTo(int member) const {
  const int64_t all =
      std::accumulate(contribution_.begin(), contribution_.end(), int64_t{0}) - Contribution(me_);
  if (member == me_) return all;
  const int64_t before =
      std::accumulate(contribution_.begin(), contribution_.begin() + member, int64_t{0});
  return before - (me_ < member ? Contribution(me_) : 0);
}

int64_t EncodedPlan::ReceivedFrom(int member) const {
  return Contribution(me_) * (member - (me_ < member ? 1 : 0));
}

int64_t EncodedPlan::ResultOf(int member) const {
  return std::accumulate(result_.begin(), result_.begin() + member, int64_t{0});
}

}  // namespace hvdlite::comm::compressed
