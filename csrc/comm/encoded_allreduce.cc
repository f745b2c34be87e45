#include "comm/encoded_allreduce.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "comm/sequence.h"

namespace hvdlite::comm {

namespace {

// Elements that one call of Advance() works on: tens of microseconds. A multiple of every block.
constexpr int64_t kStretch = 16 << 10;

// Elements of a piece that lie in the share of one member.
struct Stretch {
  size_t piece;
  int owner;
  int64_t begin, end;
  int64_t count() const { return end - begin; }
};

// Works on one stretch in each call.
class Stretches final : public Work {
 public:
  using Visit = std::function<void(const Stretch&)>;
  Stretches(std::vector<Stretch> all, Visit visit)
      : all_(std::move(all)), visit_(std::move(visit)) {}

  Progress Advance() override {
    if (next_ < all_.size()) visit_(all_[next_++]);
    return next_ >= all_.size() ? Progress::kDone : Progress::kSome;
  }

 private:
  const std::vector<Stretch> all_;
  const Visit visit_;
  size_t next_ = 0;
};

template <typename T>
T* GrowTo(int64_t size, std::vector<T>* memory) {
  if (memory->size() < static_cast<size_t>(size)) memory->resize(static_cast<size_t>(size));
  return memory->data();
}

class Encoding final : public Sequence {
 public:
  Encoding(Communicator* over, EncodedScratch* scratch, const Batch& batch, int me, int members)
      : over_(*over),
        batch_(batch),
        me_(me),
        plan_(batch, me, members),
        sent_(GrowTo(plan_.SentTo(me) + plan_.Contribution(me), &scratch->sent)),
        received_(GrowTo(plan_.ReceivedFrom(members), &scratch->received)),
        results_(GrowTo(plan_.ResultOf(members), &scratch->results)),
        sums_(GrowTo(plan_.summed(), &scratch->sums)),
        values_(GrowTo(2 * kStretch, &scratch->values)) {
    Then([this] { return Each(All(), [this](const Stretch& s) { Encode(s); }); });
    if (members > 1) Then([this] { return SendContributions(); });
    Then([this] { return Each(Mine(), [this](const Stretch& s) { Sum(s); }); });
    if (members > 1 && plan_.has_results()) Then([this] { return SpreadResults(); });
    Then([this] { return Each(All(), [this](const Stretch& s) { Finish(s); }); });
  }

  const EncodedPlan& plan() const { return plan_; }

 private:
  static std::unique_ptr<Work> Each(std::vector<Stretch> all, Stretches::Visit visit) {
    return std::make_unique<Stretches>(std::move(all), std::move(visit));
  }

  void Cut(size_t piece, int owner, std::vector<Stretch>* out) const {
    const Share share = plan_.share(piece, owner);
    for (int64_t at = share.begin; at < share.end; at += kStretch)
      out->push_back({piece, owner, at, std::min(share.end, at + kStretch)});
  }
  // What I own.
  std::vector<Stretch> Mine() const {
    std::vector<Stretch> out;
    for (size_t i = 0; i < batch_.pieces.size(); ++i) Cut(i, me_, &out);
    return out;
  }
  // Each element once. Of a gathered piece I am one of the owners.
  std::vector<Stretch> All() const {
    std::vector<Stretch> out;
    for (size_t i = 0; i < batch_.pieces.size(); ++i) {
      for (int m = 0; m < plan_.members(); ++m) {
        if (!plan_.gathers(i) || m == me_) Cut(i, m, &out);
      }
    }
    return out;
  }

  int64_t Bytes(int64_t count) const { return kernels::EncodedBytes(batch_.codec, count); }
  // Where the stretch begins in the encoded share that it lies in.
  int64_t InShare(const Stretch& s) const {
    return Bytes(s.begin - plan_.share(s.piece, s.owner).begin);
  }
  // My encoded contribution to the stretch.
  char* Sent(const Stretch& s, int to) const {
    return sent_ + plan_.SentTo(to) + plan_.InContribution(s.piece, to) + InShare(s);
  }
  const char* Received(const Stretch& s, int from) const {
    return from == me_ ? Sent(s, me_)
                       : received_ + plan_.ReceivedFrom(from) + plan_.InContribution(s.piece, me_) +
                             InShare(s);
  }
  char* Result(const Stretch& s) const {
    return results_ + plan_.ResultOf(s.owner) + plan_.InResult(s.piece, s.owner) + InShare(s);
  }
  float* SumOf(const Stretch& s) const {
    return sums_ + plan_.SumAt(s.piece) + (s.begin - plan_.share(s.piece, me_).begin);
  }

  kernels::Draws Draw(const Stretch& s, bool of_sum) const {
    return DrawsOf(batch_, s.piece, me_, of_sum, s.begin);
  }
  kernels::Encoded What(const Stretch& s) const {
    const Piece& piece = batch_.pieces[s.piece];
    kernels::Encoded what;
    what.input = static_cast<const float*>(piece.input) + s.begin;
    if (piece.coding.residual != nullptr) what.residual = piece.coding.residual + s.begin;
    what.scale = static_cast<float>(batch_.reduce.prescale);
    return what;
  }

  // What I own myself does not travel, so I add it to the sum as it is.
  bool StaysHere(const Stretch& s) const { return s.owner == me_ && !plan_.gathers(s.piece); }

  void Encode(const Stretch& s) {
    if (StaysHere(s)) return;
    char* const encoded = Sent(s, s.owner);
    kernels::Encode(batch_.codec, What(s), s.count(), Draw(s, /*of_sum=*/false), encoded);
    if (!plan_.gathers(s.piece)) return;
    for (int m = 0; m < plan_.members(); ++m) {
      if (m != me_) std::memcpy(Sent(s, m), encoded, static_cast<size_t>(Bytes(s.count())));
    }
  }

  std::unique_ptr<Work> SendContributions() {
    contributions_.kind = OpKind::kAlltoall;
    Piece piece;
    piece.input = sent_;
    piece.output = received_;
    for (int from = 0; from < plan_.members(); ++from) {
      for (int to = 0; to < plan_.members(); ++to)
        piece.counts.push_back(from == to ? 0 : plan_.Contribution(to));
    }
    contributions_.pieces.push_back(std::move(piece));
    return over_.Start(contributions_);
  }

  void Sum(const Stretch& s) {
    float* const sum = SumOf(s);
    std::fill_n(sum, s.count(), 0.0F);
    for (int m = 0; m < plan_.members(); ++m) {
      if (m == me_ && StaysHere(s)) {
        kernels::AddExactly(What(s), s.count(), sum);
      } else {
        kernels::DecodeAdd(batch_.codec, Received(s, m), s.count(), sum);
      }
    }
    if (plan_.gathers(s.piece)) return;
    kernels::Encode(batch_.codec, {sum, nullptr, 1}, s.count(), Draw(s, /*of_sum=*/true),
                    Result(s));
  }

  std::unique_ptr<Work> SpreadResults() {
    spread_.kind = OpKind::kAllgather;
    Piece piece;
    piece.input = results_ + plan_.ResultOf(me_);
    piece.output = results_;
    for (int m = 0; m < plan_.members(); ++m) piece.counts.push_back(plan_.Result(m));
    spread_.pieces.push_back(std::move(piece));
    return over_.Start(spread_);
  }

  void Finish(const Stretch& s) {
    const Piece& piece = batch_.pieces[s.piece];
    const bool gathered = plan_.gathers(s.piece);
    const float* const result = gathered ? SumOf(s) : values_;
    if (!gathered) kernels::Decode(batch_.codec, Result(s), s.count(), values_);
    if (piece.coding.residual != nullptr) {
      float* const residual = piece.coding.residual + s.begin;
      if (StaysHere(s)) {
        kernels::KeepLost(batch_.codec, {SumOf(s), nullptr, 1}, result, result, s.count(),
                          residual);
      } else {
        float* const decoded = values_ + kStretch;
        kernels::Decode(batch_.codec, Sent(s, s.owner), s.count(), decoded);
        kernels::KeepLost(batch_.codec, What(s), decoded, result, s.count(), residual);
      }
    }
    float* const output = static_cast<float*>(piece.output) + s.begin;
    std::memcpy(output, result, static_cast<size_t>(s.count()) * sizeof(float));
    kernels::Finish(batch_.reduce, output, s.count());
  }

  Communicator& over_;
  const Batch& batch_;
  const int me_;
  const EncodedPlan plan_;
  char* const sent_;
  char* const received_;
  char* const results_;
  float* const sums_;
  float* const values_;  // two stretches
  Batch contributions_, spread_;
};

}  // namespace

std::unique_ptr<Work> EncodedAllreduce(Communicator* over, EncodedScratch* scratch,
                                       Carried* carried, const Batch& batch, int me, int members) {
  auto work = std::make_unique<Encoding>(over, scratch, batch, me, members);
  CountEncoded(carried, batch, work->plan());
  return work;
}

kernels::Draws DrawsOf(const Batch& batch, size_t piece, int me, bool of_sum, int64_t element) {
  const auto which = static_cast<uint64_t>(me) * 2 + (of_sum ? 1 : 0);
  return {kernels::MixKey(batch.pieces[piece].coding.draw, which),
          element / kernels::BlockOf(batch.codec)};
}

void CountEncoded(Carried* carried, const Batch& batch, const EncodedPlan& plan) {
  if (carried == nullptr) return;
  carried->Count(plan.has_results() ? Carrier::kEncodedOwners : Carrier::kEncodedGather,
                 batch.kind);
  carried->CountEncoded(static_cast<uint64_t>(plan.sent_elements()) * sizeof(float),
                        static_cast<uint64_t>(plan.sent_bytes()));
}

}  // namespace hvdlite::comm
