// EncodedPlan: which member sums which elements of an encoded allreduce, and where their bytes lie.
// DECIDES; pure.
//
//   tensor   | block | block | block | block | block | block | block |
//   owner      1       1       2       2       0       0       0          of 3; first: by name
//
// Shares are whole blocks, and each tensor is divided by itself. So a block never spans two
// tensors, and the bits of a result do not depend on the batch that the tensor is in. The first
// owner follows from the tensor's name, so that small tensors do not all have the same one.
//
// A tensor may be *gathered* instead: each member owns all of it. Its contributions go to all, no
// sum travels back, and nothing is encoded twice.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/batch.h"

namespace hvdlite::comm::compressed {

// Whether a tensor of so many encoded bytes is gathered. By owners a member sends 2 (n-1)/n of
// them in two steps, gathered (n-1) in one: as many for two members, and few more of a small tensor
// among a few. Depends on nothing but the tensor and n, for the sake of equal bits.
bool IsGathered(int64_t encoded_bytes, int members);

// Elements of a tensor.
struct Share {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t count() const { return end - begin; }
  friend bool operator==(const Share&, const Share&) = default;
};

// What `member` owns of a tensor that is divided. `tensor`: of Coding.
Share ShareOf(int64_t count, int64_t block, int members, int member, uint64_t tensor);

class EncodedPlan {
 public:
  EncodedPlan(const Batch& batch, int me, int members);

  int members() const { return members_; }
  bool gathers(size_t piece) const { return gathered_[piece]; }
  // Whether sums travel back: not all pieces are gathered.
  bool has_results() const { return has_results_; }
  Share share(size_t piece, int member) const { return Of(shares_, piece, member); }
  // Elements of all shares of mine.
  int64_t summed() const { return summed_; }
  // Where the sum of a piece begins among them.
  int64_t SumAt(size_t piece) const { return sum_at_[piece]; }

  // Bytes from each member to `member`, and where those for `member` begin in what I send: the
  // others first, in their order, then my own.
  int64_t Contribution(int member) const { return contribution_[static_cast<size_t>(member)]; }
  int64_t SentTo(int member) const;
  // Where those from `member` begin in what I receive: without my own.
  int64_t ReceivedFrom(int member) const;
  // Where the piece begins in a contribution to `member`.
  int64_t InContribution(size_t piece, int member) const { return Of(contributed_, piece, member); }

  // Bytes of the sums of `member`, where they begin among all, and where the piece's begins there.
  int64_t Result(int member) const { return result_[static_cast<size_t>(member)]; }
  int64_t ResultOf(int member) const;
  int64_t InResult(size_t piece, int member) const { return Of(resulting_, piece, member); }

  // What I send to others in all, in bytes, and in elements.
  int64_t sent_bytes() const { return sent_bytes_; }
  int64_t sent_elements() const { return sent_elements_; }

 private:
  template <typename T>
  const T& Of(const std::vector<T>& table, size_t piece, int member) const {
    return table[piece * static_cast<size_t>(members_) + static_cast<size_t>(member)];
  }

  const int me_;
  const int members_;
  bool has_results_ = false;
  std::vector<bool> gathered_;
  std::vector<Share> shares_;          // by piece, then by member; so the two below
  std::vector<int64_t> contributed_;   // offsets
  std::vector<int64_t> resulting_;     // offsets
  std::vector<int64_t> contribution_;  // by member
  std::vector<int64_t> result_;        // by member
  std::vector<int64_t> sum_at_;        // by piece
  int64_t summed_ = 0;
  int64_t sent_bytes_ = 0;
  int64_t sent_elements_ = 0;
};

}  // namespace hvdlite::comm::compressed
