#include "comm/net/communicator.h"

#include <utility>

#include "comm/net/algorithms.h"
#include "comm/works.h"

namespace hvdlite::comm::net {

namespace {

constexpr Carrier CarrierOf(Algorithm algorithm) {
  return static_cast<Carrier>(static_cast<int>(Carrier::kNetOneShot) + static_cast<int>(algorithm));
}
static_assert(CarrierOf(Algorithm::kAdasum) == Carrier::kNetAdasum);

// Refuses a batch that the members cannot perform. All of them hold the same batch, so all of them
// refuse it.
Status Validate(const Batch& batch, const Question& question, Algorithm algorithm) {
  if (!IsLegal(question, algorithm)) {
    return Status::InvalidArgument(std::string(Name(batch.kind)) + " is not an operation on data");
  }
  if (batch.adasum && !IsFloating(batch.dtype)) {
    return Status::InvalidArgument("Adasum of " + std::string(Name(batch.dtype)) +
                                   " tensors: it needs float16, bfloat16, float32 or float64");
  }
  if (batch.kind == OpKind::kBroadcast && (batch.root < 0 || batch.root >= question.members)) {
    return Status::InvalidArgument("broadcast from member " + std::to_string(batch.root) + " of " +
                                   std::to_string(question.members));
  }
  return Status::Ok();
}

}  // namespace

Communicator::Communicator(int me, int size, std::vector<transport::Transport*> links,
                           Options options)
    : options_(options),
      model_(options.model),
      wire_(me, size, std::move(links), options.piece_bytes, options.scratch_bytes) {}

Question Communicator::Ask(const Batch& batch) const {
  Question question = QuestionOf(batch, wire_.size());
  question.members_per_card = options_.members_per_card;
  return question;
}

Choice Communicator::Decide(const Question& question) const {
  if (options_.force.has_value() && IsLegal(question, *options_.force)) {
    Choice choice;
    choice.algorithm = *options_.force;
    choice.seconds = PredictSeconds(question, choice.algorithm, model_);
    choice.forced = true;
    return choice;
  }
  return Choose(question, model_);
}

std::string Communicator::Explain(const Batch& batch) const {
  const Question question = Ask(batch);
  return Why(question, Decide(question));
}

std::unique_ptr<Work> Communicator::Start(const Batch& batch) {
  const Question question = Ask(batch);
  const Algorithm algorithm = Decide(question).algorithm;
  if (Status status = Validate(batch, question, algorithm); !status.ok()) {
    return std::make_unique<FailedWork>(std::move(status));
  }
  Count(CarrierOf(algorithm), batch.kind);
  const bool gathers = batch.kind == OpKind::kAllgather;
  switch (algorithm) {
    case Algorithm::kOneShot: return net::OneShotAllreduce(&wire_, batch);
    case Algorithm::kDirect:
      return batch.kind == OpKind::kReducescatter ? net::DirectReducescatter(&wire_, batch)
                                                  : net::DirectAllreduce(&wire_, batch);
    case Algorithm::kGather: return net::GatherAllreduce(&wire_, batch);
    case Algorithm::kRing: return net::RingAllgather(&wire_, batch);
    case Algorithm::kPairwise:
      return gathers ? net::PairwiseAllgather(&wire_, batch) : net::PairwiseAlltoall(&wire_, batch);
    case Algorithm::kTree: return net::TreeBroadcast(&wire_, batch);
    case Algorithm::kChain: return net::ChainBroadcast(&wire_, batch);
    case Algorithm::kDissemination: return net::DisseminationBarrier(&wire_);
    case Algorithm::kAdasum: return net::AdasumAllreduce(&wire_, batch);
  }
  return std::make_unique<FailedWork>(Status::Internal("no such algorithm"));
}

std::unique_ptr<Exchanges> Communicator::StartExchanges() {
  return net::PairwiseExchanges(&wire_,
                                [this](OpKind kind) { Count(Carrier::kNetPairwise, kind); });
}

}  // namespace hvdlite::comm::net
