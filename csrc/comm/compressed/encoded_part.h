// EncodedPart: some tensors of an encoded allreduce (encoded_allreduce.h), as one member sees them.
//
// Its three local stages go through the tensors in stretches, and between them are two exchanges of
// bytes. EncodedAllreduce says when.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/batch.h"
#include "comm/compressed/encoded_plan.h"
#include "kernels/codec.h"
#include "kernels/stream.h"

namespace hvdlite::comm::compressed {

// Random numbers of member `me`'s contribution, or of a sum that it encodes, from the block on that
// has `element`: blocks count from the tensor's begin.
inline kernels::Draws DrawsOf(const Batch& batch, size_t piece, int me, bool of_sum,
                              int64_t element) {
  const auto which = static_cast<uint64_t>(me) * 2 + (of_sum ? 1 : 0);
  return {kernels::MixKey(batch.pieces[piece].coding.draw, which),
          element / kernels::BlockOf(batch.codec)};
}

class EncodedPart {
 public:
  // Elements of a stretch: tens of microseconds. A multiple of every block.
  static constexpr int64_t kStretch = 16 << 10;
  // Elements between two passes over a stretch, so that they stay in the first cache. A multiple of
  // every block, too.
  static constexpr int64_t kCached = 2 << 10;

  // Where it works: bytes and floats that nothing else uses before the allreduce is done, but for
  // `values`, which all parts share.
  struct Memory {
    char* sent = nullptr;
    char* received = nullptr;
    char* results = nullptr;
    float* sums = nullptr;
    float* values = nullptr;  // twice kCached
  };

  EncodedPart(Batch batch, int me, int members);
  EncodedPart(const EncodedPart&) = delete;
  EncodedPart& operator=(const EncodedPart&) = delete;

  const EncodedPlan& plan() const { return plan_; }
  int64_t sent_bytes() const { return plan_.SentTo(me_) + plan_.Contribution(me_); }
  int64_t received_bytes() const { return plan_.ReceivedFrom(plan_.members()); }
  int64_t result_bytes() const { return plan_.ResultOf(plan_.members()); }
  int64_t sums() const { return plan_.has_results() ? plan_.summed() : 0; }
  void Use(const Memory& memory) { memory_ = memory; }

  // Each call works on one stretch and returns whether the stage is over.
  bool Encode();  // my contributions, and the residuals of what they lose
  bool Sum();     // what I own, once contributions have arrived
  bool Finish();  // results, and the residuals of what I own, once results have arrived

  // The exchange after Encode(), and the one after Sum(), which a plan without results leaves out.
  const Batch& SendContributions();
  const Batch& SpreadResults();

 private:
  // Elements of a piece that lie in the share of one member.
  struct Stretch {
    size_t piece;
    int owner;
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };

  void Cut(size_t piece, int owner, std::vector<Stretch>* out) const;
  int64_t Bytes(int64_t count) const { return kernels::EncodedBytes(batch_.codec, count); }
  int64_t InShare(const Stretch& s) const;
  char* Sent(const Stretch& s, int to) const;
  const char* Received(const Stretch& s, int from) const;
  char* Result(const Stretch& s) const;
  float* SumOf(const Stretch& s) const;
  kernels::Draws Draw(const Stretch& s, bool of_sum) const {
    return DrawsOf(batch_, s.piece, me_, of_sum, s.begin);
  }
  float* Residual(const Stretch& s) const;  // null: none
  kernels::Encoded What(const Stretch& s) const;
  bool StaysHere(const Stretch& s) const;
  bool IsLarge(const Stretch& s) const {
    return batch_.pieces[s.piece].count >= kernels::kStreamFrom;
  }

  void EncodeOne(const Stretch& s) const;
  void Add(const Stretch& s, float* sum) const;
  void SumOne(const Stretch& s) const;
  void FinishOne(const Stretch& s) const;
  void Settle(const Stretch& s, const float* result) const;
  void FinishCached(const Stretch& s) const;

  const Batch batch_;
  const int me_;
  const EncodedPlan plan_;
  Memory memory_;
  std::vector<Stretch> all_;   // each element once; of a gathered piece I am one of the owners
  std::vector<Stretch> mine_;  // what I own of pieces whose sums travel back
  size_t next_ = 0;            // stretch of the present stage
  Batch contributions_, spread_;
};

}  // namespace hvdlite::comm::compressed
