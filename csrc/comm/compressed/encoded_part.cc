#include "comm/compressed/encoded_part.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvdlite::comm::compressed {

EncodedPart::EncodedPart(Batch batch, int me, int members)
    : batch_(std::move(batch)), me_(me), plan_(batch_, me, members) {
  for (size_t i = 0; i < batch_.pieces.size(); ++i) {
    if (!plan_.gathers(i)) Cut(i, me, &mine_);
    for (int m = 0; m < members; ++m) {
      if (!plan_.gathers(i) || m == me) Cut(i, m, &all_);
    }
  }
}

void EncodedPart::Cut(size_t piece, int owner, std::vector<Stretch>* out) const {
  const Share share = plan_.share(piece, owner);
  for (int64_t at = share.begin; at < share.end; at += kStretch)
    out->push_back({piece, owner, at, std::min(share.end, at + kStretch)});
}

// Where the stretch begins in the encoded share that it lies in.
int64_t EncodedPart::InShare(const Stretch& s) const {
  return Bytes(s.begin - plan_.share(s.piece, s.owner).begin);
}

// My encoded contribution to the stretch.
char* EncodedPart::Sent(const Stretch& s, int to) const {
  return memory_.sent + plan_.SentTo(to) + plan_.InContribution(s.piece, to) + InShare(s);
}

const char* EncodedPart::Received(const Stretch& s, int from) const {
  return from == me_ ? Sent(s, me_)
                     : memory_.received + plan_.ReceivedFrom(from) +
                           plan_.InContribution(s.piece, me_) + InShare(s);
}

char* EncodedPart::Result(const Stretch& s) const {
  return memory_.results + plan_.ResultOf(s.owner) + plan_.InResult(s.piece, s.owner) + InShare(s);
}

float* EncodedPart::SumOf(const Stretch& s) const {
  return memory_.sums + plan_.SumAt(s.piece) + (s.begin - plan_.share(s.piece, me_).begin);
}

float* EncodedPart::Residual(const Stretch& s) const {
  float* const residual = batch_.pieces[s.piece].coding.residual;
  return residual == nullptr ? nullptr : residual + s.begin;
}

kernels::Encoded EncodedPart::What(const Stretch& s) const {
  return {static_cast<const float*>(batch_.pieces[s.piece].input) + s.begin, Residual(s),
          static_cast<float>(batch_.reduce.prescale)};
}

// What I own myself does not travel, so I add it to the sum as it is.
bool EncodedPart::StaysHere(const Stretch& s) const {
  return s.owner == me_ && !plan_.gathers(s.piece);
}

bool EncodedPart::Encode() {
  if (next_ < all_.size()) EncodeOne(all_[next_++]);
  if (next_ < all_.size()) return false;
  next_ = 0;
  return true;
}

bool EncodedPart::Sum() {
  if (next_ < mine_.size()) SumOne(mine_[next_++]);
  if (next_ < mine_.size()) return false;
  next_ = 0;
  return true;
}

bool EncodedPart::Finish() {
  if (next_ < all_.size()) FinishOne(all_[next_++]);
  return next_ >= all_.size();
}

void EncodedPart::EncodeOne(const Stretch& s) const {
  if (StaysHere(s)) return;
  char* const encoded = Sent(s, s.owner);
  kernels::Encode(batch_.codec, What(s), s.count(), Draw(s, /*of_sum=*/false), encoded,
                  Residual(s));
  if (!plan_.gathers(s.piece)) return;
  for (int m = 0; m < plan_.members(); ++m) {
    if (m != me_) std::memcpy(Sent(s, m), encoded, static_cast<size_t>(Bytes(s.count())));
  }
}

const Batch& EncodedPart::SendContributions() {
  contributions_.kind = OpKind::kAlltoall;
  Piece piece;
  piece.input = memory_.sent;
  piece.output = memory_.received;
  for (int from = 0; from < plan_.members(); ++from) {
    for (int to = 0; to < plan_.members(); ++to)
      piece.counts.push_back(from == to ? 0 : plan_.Contribution(to));
  }
  contributions_.pieces.push_back(std::move(piece));
  return contributions_;
}

// The sum of all contributions, for their owner.
void EncodedPart::Add(const Stretch& s, float* sum) const {
  std::fill_n(sum, s.count(), 0.0F);
  for (int m = 0; m < plan_.members(); ++m) {
    if (m == me_ && StaysHere(s)) {
      kernels::AddExactly(What(s), s.count(), sum);
    } else {
      kernels::DecodeAdd(batch_.codec, Received(s, m), s.count(), sum);
    }
  }
}

void EncodedPart::SumOne(const Stretch& s) const {
  float* const sum = SumOf(s);
  Add(s, sum);
  kernels::Encode(batch_.codec, {sum, nullptr, 1}, s.count(), Draw(s, /*of_sum=*/true), Result(s));
}

const Batch& EncodedPart::SpreadResults() {
  spread_.kind = OpKind::kAllgather;
  Piece piece;
  piece.input = memory_.results + plan_.ResultOf(me_);
  piece.output = memory_.results;
  for (int m = 0; m < plan_.members(); ++m) piece.counts.push_back(plan_.Result(m));
  spread_.pieces.push_back(std::move(piece));
  return spread_;
}

void EncodedPart::FinishOne(const Stretch& s) const {
  Stretch few = s;
  for (; few.begin < s.end; few.begin = few.end) {
    few.end = std::min(s.end, few.begin + kCached);
    FinishCached(few);
  }
  if (IsLarge(s)) kernels::EndStreaming();
}

// The residual, which has what my contribution loses since Encode(). In place the input is still
// there.
void EncodedPart::Settle(const Stretch& s, const float* result) const {
  float* const residual = Residual(s);
  if (StaysHere(s)) {
    kernels::KeepLost(batch_.codec, {SumOf(s), nullptr, 1}, result, result, s.count(), residual);
  } else if (!kernels::IsFinite(batch_.codec, result, s.count())) {
    float* const decoded = memory_.values + kCached;
    kernels::Decode(batch_.codec, Sent(s, s.owner), s.count(), decoded);
    kernels::TakeBack(batch_.codec, What(s), decoded, result, s.count(), residual);
  }
}

void EncodedPart::FinishCached(const Stretch& s) const {
  float* const result = memory_.values;
  if (plan_.gathers(s.piece)) {
    Add(s, result);  // not before: no other member waits for it, and here it stays in the cache
  } else {
    kernels::Decode(batch_.codec, Result(s), s.count(), result);
  }
  if (Residual(s) != nullptr) Settle(s, result);
  kernels::Finish(batch_.reduce, result, s.count());
  float* const output = static_cast<float*>(batch_.pieces[s.piece].output) + s.begin;
  if (IsLarge(s)) {
    kernels::StreamCopy(result, s.count(), output);
  } else {
    std::memcpy(output, result, static_cast<size_t>(s.count()) * sizeof(float));
  }
}

}  // namespace hvdlite::comm::compressed
