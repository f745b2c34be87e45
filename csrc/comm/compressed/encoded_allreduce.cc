#include "comm/compressed/encoded_allreduce.h"

#include <utility>
#include <vector>

#include "comm/compressed/encoded_part.h"
#include "comm/compressed/parts_work.h"
#include "comm/compressed/split.h"

namespace hvdlite::comm::compressed {

namespace {

// Contributions of so many parts are under way before the results of the first one, which need all
// members.
constexpr size_t kAhead = 2;

class Encoding final : public PartsWork {
 public:
  Encoding(Communicator* over, const Batch& batch, int me, int members)
      : PartsWork(over, OnlyWhole(batch), me, members) {
    for (Batch& part : InParts(WithoutWhole(batch)))
      parts_.push_back(std::make_unique<EncodedPart>(std::move(part), me, members));
    PlaceIn(over->scratch());
    contributed_.resize(parts_.size());
    needed_.resize(parts_.size());
    if (members == 1) return;
    for (size_t i = 0; i < parts_.size() + kAhead; ++i) {
      if (i < parts_.size()) {
        order_.push_back({i, /*spreads=*/false});
        contributed_[i] = needed_[i] = order_.size();
      }
      if (i >= kAhead && parts_[i - kAhead]->plan().has_results()) {
        order_.push_back({i - kAhead, /*spreads=*/true});
        needed_[i - kAhead] = order_.size();
      }
    }
  }

  std::vector<const EncodedPlan*> plans() const {
    std::vector<const EncodedPlan*> plans;
    for (const auto& part : parts_) plans.push_back(&part->plan());
    return plans;
  }

 private:
  struct Transfer {
    size_t part;
    bool spreads;  // results; else contributions
  };

  // Gives each part memory of its own.
  void PlaceIn(Scratch* scratch) {
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

  size_t exchanges() const override { return order_.size(); }

  const Batch* Exchange(size_t number) override {
    const Transfer& transfer = order_[number];
    if (transfer.part >= (transfer.spreads ? summed_ : encoded_)) return nullptr;
    EncodedPart& part = *parts_[transfer.part];
    return transfer.spreads ? &part.SpreadResults() : &part.SendContributions();
  }

  Status WorkHere(bool* worked) override {
    *worked = true;
    if (summed_ < encoded_ && contributed_[summed_] <= ended()) {
      if (parts_[summed_]->Sum()) ++summed_;
    } else if (encoded_ < parts_.size()) {
      if (parts_[encoded_]->Encode()) ++encoded_;
    } else if (finished_ < summed_ && needed_[finished_] <= ended()) {
      if (parts_[finished_]->Finish()) ++finished_;
    } else {
      *worked = false;
    }
    return Status::Ok();
  }

  bool has_all() const override { return finished_ == parts_.size(); }

  std::vector<std::unique_ptr<EncodedPart>> parts_;
  std::vector<Transfer> order_;  // of exchanges, alike on all members
  // By part: so many exchanges must have ended before it is summed, and before it is finished.
  std::vector<size_t> contributed_, needed_;
  // So many parts have been encoded, ...
  size_t encoded_ = 0, summed_ = 0, finished_ = 0;
};

}  // namespace

std::unique_ptr<Work> StartEncoded(Communicator* over, const Batch& batch, int me, int members) {
  if (auto own = over->StartEncoded(batch, me, members)) return own;
  auto work = std::make_unique<Encoding>(over, batch, me, members);
  if (over->carrier_counts() != nullptr)
    CountEncoded(work->plans(), batch.kind, over->carrier_counts());
  return work;
}

void CountEncoded(const std::vector<const EncodedPlan*>& plans, OpKind kind,
                  CarrierCounts* carrier_counts) {
  bool has_results = false;
  int64_t elements = 0;
  int64_t bytes = 0;
  for (const EncodedPlan* plan : plans) {
    has_results |= plan->has_results();
    elements += plan->sent_elements();
    bytes += plan->sent_bytes();
  }
  carrier_counts->Count(has_results ? Carrier::kEncodedOwners : Carrier::kEncodedGather, kind);
  carrier_counts->CountEncoded(static_cast<uint64_t>(elements) * sizeof(float),
                               static_cast<uint64_t>(bytes));
}

}  // namespace hvdlite::comm::compressed
