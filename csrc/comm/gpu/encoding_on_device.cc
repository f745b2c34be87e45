#include <array>
#include <utility>

#include "comm/compressed/encoded_allreduce.h"
#include "comm/compressed/encoded_part.h"
#include "comm/gpu/encoding.h"
#include "comm/works.h"
#include "kernels/gpu.h"
#include "kernels/gpu_codec.h"

namespace hvdlite::comm::gpu {
namespace {

// A work that another object owns.
class Borrowed final : public Work {
 public:
  explicit Borrowed(Work* work) : work_(*work) {}
  Progress Advance() override {
    const Progress progress = work_.Advance();
    return progress == Progress::kFailed ? Fail(work_.status()) : progress;
  }

 private:
  Work& work_;
};

// What the steps do, in the order of the stream.
class Steps final : public Sequence {
 public:
  using Local = std::function<Status()>;
  void Then(Local local) {
    Sequence::Then([local = std::move(local)]() -> std::unique_ptr<Work> {
      const Status status = local();
      return status.ok() ? nullptr : std::make_unique<FailedWork>(status);
    });
  }
  // The exchange is kept until this object is destroyed.
  void ThenExchange(StartExchange start, const Batch* batch) {
    Sequence::Then([this, start = std::move(start), batch] {
      exchanges_.push_back(start(*batch));
      return std::make_unique<Borrowed>(exchanges_.back().get());
    });
  }

 private:
  std::vector<std::unique_ptr<Work>> exchanges_;
};

// A member's share of a piece.
struct Part {
  size_t piece;
  int owner;
  compressed::Share share;
};

class OnDevice final : public Encoding {
 public:
  OnDevice(std::shared_ptr<device::Gpu> gpu, const StartExchange& start, const Batch& batch, int me,
           int members)
      : gpu_(std::move(gpu)), batch_(batch), me_(me), plan_(batch, me, members) {
    PlanContributions();
    PlanResults();
    steps_.Then([this] { return Encode(); });
    if (members > 1) steps_.ThenExchange(start, &contributions_);
    steps_.Then([this] { return Sum(); });
    if (members > 1 && plan_.has_results()) steps_.ThenExchange(start, &spread_);
    steps_.Then([this] { return Settle(); });
  }

  const compressed::EncodedPlan& plan() const { return plan_; }

  Status Reserve() override {
    const int members = plan_.members();
    const std::array<int64_t, 4> sizes = {plan_.SentTo(me_) + plan_.Contribution(me_),
                                          plan_.ReceivedFrom(members), plan_.ResultOf(members),
                                          plan_.summed() * static_cast<int64_t>(sizeof(float))};
    size_t bytes = 0;
    std::array<size_t, 4> begins{};
    for (size_t i = 0; i < sizes.size(); ++i) {
      begins[i] = bytes;
      bytes += (static_cast<size_t>(sizes[i]) + kAlign - 1) / kAlign * kAlign;
    }
    HVDLITE_RETURN_IF_ERROR(gpu_->OnDevice(bytes + kAlign, &memory_));
    char* const begin = static_cast<char*>(memory_->data());
    sent_ = begin + begins[0];
    received_ = begin + begins[1];
    results_ = begin + begins[2];
    sums_ = reinterpret_cast<float*>(begin + begins[3]);
    contributions_.pieces[0].input = sent_;
    contributions_.pieces[0].output = received_;
    spread_.pieces[0].input = results_ + plan_.ResultOf(me_);
    spread_.pieces[0].output = results_;
    return Status::Ok();
  }
  std::vector<const Batch*> exchanges() const override {
    if (plan_.members() == 1) return {};
    if (!plan_.has_results()) return {&contributions_};
    return {&contributions_, &spread_};
  }

  Progress Advance() override {
    const Progress progress = steps_.Advance();
    return progress == Progress::kFailed ? Fail(steps_.status()) : progress;
  }
  device::EventPtr finished() const override { return finished_; }

 private:
  static constexpr size_t kAlign = 256;

  void PlanContributions() {
    Piece piece;
    for (int from = 0; from < plan_.members(); ++from) {
      for (int to = 0; to < plan_.members(); ++to)
        piece.counts.push_back(from == to ? 0 : plan_.Contribution(to));
    }
    contributions_.kind = OpKind::kAlltoall;
    contributions_.device = batch_.device;
    contributions_.pieces.push_back(std::move(piece));
  }
  void PlanResults() {
    Piece piece;
    for (int m = 0; m < plan_.members(); ++m) piece.counts.push_back(plan_.Result(m));
    spread_.kind = OpKind::kAllgather;
    spread_.device = batch_.device;
    spread_.pieces.push_back(std::move(piece));
  }

  // Calls visit for what I own.
  template <class Visit>
  void EachMine(const Visit& visit) const {
    for (size_t i = 0; i < batch_.pieces.size(); ++i) visit(Part{i, me_, plan_.share(i, me_)});
  }
  // For each element once. Of a gathered piece I am one of the owners.
  template <class Visit>
  void EachElementOnce(const Visit& visit) const {
    for (size_t i = 0; i < batch_.pieces.size(); ++i) {
      for (int m = 0; m < plan_.members(); ++m) {
        if (!plan_.gathers(i) || m == me_) visit(Part{i, m, plan_.share(i, m)});
      }
    }
  }
  // What I own myself does not travel, so I add it to the sum as it is.
  bool StaysHere(const Part& part) const { return part.owner == me_ && !plan_.gathers(part.piece); }

  char* Sent(size_t piece, int to) const {
    return sent_ + plan_.SentTo(to) + plan_.InContribution(piece, to);
  }
  char* Received(size_t piece, int from) const {
    return from == me_ ? Sent(piece, me_)
                       : received_ + plan_.ReceivedFrom(from) + plan_.InContribution(piece, me_);
  }
  char* Result(const Part& part) const {
    return results_ + plan_.ResultOf(part.owner) + plan_.InResult(part.piece, part.owner);
  }
  float* SumOf(size_t piece) const { return sums_ + plan_.SumAt(piece); }
  kernels::Encoded What(const Part& part) const {
    const Piece& piece = batch_.pieces[part.piece];
    kernels::Encoded what;
    what.input = static_cast<const float*>(piece.input) + part.share.begin;
    if (piece.coding.residual != nullptr) what.residual = piece.coding.residual + part.share.begin;
    what.scale = static_cast<float>(batch_.reduce.prescale);
    return what;
  }

  Status Encode() {
    std::vector<kernels::ToEncode> parts;
    std::vector<kernels::Move> copies;
    EachElementOnce([&](const Part& part) {
      if (StaysHere(part)) return;
      char* const encoded = Sent(part.piece, part.owner);
      parts.push_back(
          {What(part), part.share.count(),
           compressed::DrawsOf(batch_, part.piece, me_, /*of_sum=*/false, part.share.begin),
           encoded});
      if (!plan_.gathers(part.piece)) return;
      const int64_t bytes = kernels::EncodedBytes(batch_.codec, part.share.count());
      for (int m = 0; m < plan_.members(); ++m) {
        if (m != me_) copies.push_back({encoded, Sent(part.piece, m), bytes});
      }
    });
    HVDLITE_RETURN_IF_ERROR(kernels::EncodeAll(gpu_.get(), batch_.codec, parts));
    return kernels::MoveScaled(gpu_.get(), {.dtype = DType::kUInt8}, copies);
  }

  // Member by member, because each element is summed in their order.
  Status Sum() {
    const auto bytes = static_cast<size_t>(plan_.summed()) * sizeof(float);
    if (bytes > 0) HVDLITE_RETURN_IF_ERROR(gpu_->Zero(sums_, bytes));
    for (int m = 0; m < plan_.members(); ++m) {
      std::vector<kernels::ToDecode> coded;
      std::vector<kernels::ToAdd> exact;
      EachMine([&](const Part& part) {
        if (m == me_ && StaysHere(part)) {
          exact.push_back({What(part), SumOf(part.piece), part.share.count()});
        } else {
          coded.push_back({Received(part.piece, m), SumOf(part.piece), part.share.count()});
        }
      });
      HVDLITE_RETURN_IF_ERROR(kernels::DecodeAll(gpu_.get(), batch_.codec, coded, /*add=*/true));
      HVDLITE_RETURN_IF_ERROR(kernels::AddExactlyAll(gpu_.get(), exact));
    }
    std::vector<kernels::ToEncode> sums;
    EachMine([&](const Part& part) {
      if (plan_.gathers(part.piece)) return;
      sums.push_back(
          {{SumOf(part.piece), nullptr, 1},
           part.share.count(),
           compressed::DrawsOf(batch_, part.piece, me_, /*of_sum=*/true, part.share.begin),
           Result(part)});
    });
    return kernels::EncodeAll(gpu_.get(), batch_.codec, sums);
  }

  Status Settle() {
    std::vector<kernels::ToSettle> parts;
    EachElementOnce([&](const Part& part) {
      const Piece& piece = batch_.pieces[part.piece];
      kernels::ToSettle settle;
      settle.elements = part.share.count();
      settle.output = static_cast<float*>(piece.output) + part.share.begin;
      if (piece.coding.residual != nullptr)
        settle.residual = piece.coding.residual + part.share.begin;
      if (StaysHere(part)) {
        settle.what = {SumOf(part.piece), nullptr, 1};
      } else {
        settle.what = What(part);
        settle.sent = Sent(part.piece, part.owner);
      }
      if (plan_.gathers(part.piece)) {
        settle.sum = SumOf(part.piece);
      } else {
        settle.result = Result(part);
      }
      parts.push_back(settle);
    });
    HVDLITE_RETURN_IF_ERROR(kernels::SettleAll(gpu_.get(), batch_.codec, parts));
    std::vector<kernels::Move> outputs;
    for (const Piece& piece : batch_.pieces)
      outputs.push_back({piece.output, piece.output, piece.count});
    const kernels::ReduceSpec& reduce = batch_.reduce;
    const kernels::Scaling finish{DType::kFloat32, reduce.divisor, true, reduce.postscale};
    HVDLITE_RETURN_IF_ERROR(kernels::MoveScaled(gpu_.get(), finish, outputs));
    return gpu_->Record(gpu_->stream(), &finished_);
  }

  const std::shared_ptr<device::Gpu> gpu_;
  const Batch& batch_;
  const int me_;
  const compressed::EncodedPlan plan_;
  Batch contributions_, spread_;
  std::unique_ptr<device::Gpu::Buffer> memory_;
  char* sent_ = nullptr;
  char* received_ = nullptr;
  char* results_ = nullptr;
  float* sums_ = nullptr;
  Steps steps_;
  device::EventPtr finished_;
};

}  // namespace

std::unique_ptr<Encoding> EncodeOnDevice(std::shared_ptr<device::Gpu> gpu,
                                         const StartExchange& start, CarrierCounts* carrier_counts,
                                         const Batch& batch, int me, int members) {
  auto work = std::make_unique<OnDevice>(std::move(gpu), start, batch, me, members);
  if (carrier_counts != nullptr) carrier_counts->Count(Carrier::kEncodedOnGpu, batch.kind);
  if (carrier_counts != nullptr)
    compressed::CountEncoded({&work->plan()}, batch.kind, carrier_counts);
  return work;
}

}  // namespace hvdlite::comm::gpu
