#include "comm/encoded_allreduce.h"

#include <utility>
#include <vector>

#include "comm/encoded_part.h"
#include "comm/parts.h"
#include "comm/whole.h"

namespace hvdlite::comm {

namespace {

// Stretches of local work between two polls of a slow exchange: a poll is two system calls, which
// seldom find anything there.
constexpr int kStretchesPerPoll = 4;

class Encoding final : public Work {
 public:
  Encoding(Communicator* over, EncodedScratch* scratch, const Batch& batch, int me, int members)
      : over_(over), whole_(OnlyWhole(batch)) {
    for (Batch& part : InParts(WithoutWhole(batch)))
      parts_.push_back(std::make_unique<EncodedPart>(std::move(part), me, members));
    PlaceIn(scratch);
    if (members == 1) arrived_ = parts_.size();
    needed_.resize(parts_.size());
    const auto exchange = [this](size_t part, bool spreads) {
      exchanges_.push_back({part, spreads});
      needed_[part] = exchanges_.size();
    };
    for (size_t i = 0; members > 1 && i <= parts_.size(); ++i) {
      if (i < parts_.size()) exchange(i, /*spreads=*/false);
      if (i > 0 && parts_[i - 1]->plan().has_results()) exchange(i - 1, /*spreads=*/true);
    }
    whole_travels_ = !whole_.pieces.empty();
    if (whole_travels_) exchange_ = over->Start(whole_);
  }

  Progress Advance() override {
    Progress exchanged = Progress::kNone;
    if (exchange_ != nullptr) {
      exchanged = exchange_->Advance();
      if (exchanged == Progress::kFailed) return Fail(exchange_->status());
      if (exchanged == Progress::kDone) {
        exchange_.reset();
        if (whole_travels_) {
          whole_travels_ = false;
        } else if (!exchanges_[exchanged_++].spreads) {
          ++arrived_;
        }
      }
    }
    if (exchange_ == nullptr && MayExchange()) {
      EncodedPart& part = *parts_[exchanges_[exchanged_].part];
      exchange_ = exchanges_[exchanged_].spreads ? part.SpreadResults(over_)
                                                 : part.SendContributions(over_);
      return Progress::kSome;
    }
    // After each step of the exchange a stretch of local work.
    const int most = exchange_ != nullptr && over_->slow() ? kStretchesPerPoll : 1;
    int stretches = 0;
    while (stretches < most && WorkHere()) ++stretches;
    if (stretches > 0) return Progress::kSome;
    return exchange_ == nullptr && finished_ == parts_.size() ? Progress::kDone : exchanged;
  }

  std::vector<const EncodedPlan*> plans() const {
    std::vector<const EncodedPlan*> plans;
    for (const auto& part : parts_) plans.push_back(&part->plan());
    return plans;
  }

 private:
  struct Exchange {
    size_t part;
    bool spreads;  // results; else contributions
  };

  // Gives each part memory of its own.
  void PlaceIn(EncodedScratch* scratch) {
    int64_t sent = 0;
    int64_t received = 0;
    int64_t results = 0;
    int64_t sums = 0;
    for (const auto& part : parts_) {
      sent += part->sent_bytes();
      received += part->received_bytes();
      results += part->result_bytes();
      sums += part->sums();
    }
    EncodedPart::Memory next = {GrowTo(sent, &scratch->sent), GrowTo(received, &scratch->received),
                                GrowTo(results, &scratch->results), GrowTo(sums, &scratch->sums),
                                GrowTo(2 * EncodedPart::kCached, &scratch->values)};
    for (const auto& part : parts_) {
      part->Use(next);
      next.sent += part->sent_bytes();
      next.received += part->received_bytes();
      next.results += part->result_bytes();
      next.sums += part->sums();
    }
  }

  // Whether what the next exchange sends is there.
  bool MayExchange() const {
    if (exchanged_ == exchanges_.size()) return false;
    const Exchange& next = exchanges_[exchanged_];
    return next.part < (next.spreads ? summed_ : encoded_);
  }

  // Works on one stretch, first on what others wait for. False: nothing can be done now.
  bool WorkHere() {
    if (summed_ < arrived_ && summed_ < encoded_) {
      if (parts_[summed_]->Sum()) ++summed_;
    } else if (encoded_ < parts_.size()) {
      if (parts_[encoded_]->Encode()) ++encoded_;
    } else if (finished_ < summed_ && exchanged_ >= needed_[finished_]) {
      if (parts_[finished_]->Finish()) ++finished_;
    } else {
      return false;
    }
    return true;
  }

  Communicator* const over_;
  const Batch whole_;
  std::vector<std::unique_ptr<EncodedPart>> parts_;
  std::vector<Exchange> exchanges_;  // in the order of all members
  std::vector<size_t> needed_;       // by part: so many must be done before it is finished
  std::unique_ptr<Work> exchange_;   // the one under way
  bool whole_travels_ = false;       // that it is that of whole tensors
  size_t exchanged_ = 0;             // exchanges that are done
  // So many parts have been encoded, their contributions have arrived, ...
  size_t encoded_ = 0, arrived_ = 0, summed_ = 0, finished_ = 0;
};

}  // namespace

std::unique_ptr<Work> EncodedAllreduce(Communicator* over, EncodedScratch* scratch,
                                       Carried* carried, const Batch& batch, int me, int members) {
  auto work = std::make_unique<Encoding>(over, scratch, batch, me, members);
  if (carried != nullptr) CountEncoded(work->plans(), batch.kind, carried);
  return work;
}

void CountEncoded(const std::vector<const EncodedPlan*>& plans, OpKind kind, Carried* carried) {
  bool has_results = false;
  int64_t elements = 0;
  int64_t bytes = 0;
  for (const EncodedPlan* plan : plans) {
    has_results |= plan->has_results();
    elements += plan->sent_elements();
    bytes += plan->sent_bytes();
  }
  carried->Count(has_results ? Carrier::kEncodedOwners : Carrier::kEncodedGather, kind);
  carried->CountEncoded(static_cast<uint64_t>(elements) * sizeof(float),
                        static_cast<uint64_t>(bytes));
}

}  // namespace hvdlite::comm
