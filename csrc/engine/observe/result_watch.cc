#include "engine/observe/result_watch.h"

#include <optional>
#include <string>

#include "engine/execute/prepare.h"
#include "engine/execute/sample.h"
#include "engine/message.h"

namespace hvdlite::engine {

ResultWatch::ResultWatch(const Config& config, int rank, const Logger* log)
    : samples_(config.drift != "off"),
      fails_(config.drift == "error"),
      log_(*log),
      nan_watch_(config.nan_watch, rank) {}

void ResultWatch::Began(const Running& running) {
  const std::string not_finite = nan_watch_.Began(running);
  if (!not_finite.empty()) log_.Warning(not_finite);
}

// The members carry out the same decisions, so they sample the same results.
void ResultWatch::Ended(ProcessSet* set, const Running& running) {
  nan_watch_.Ended(running);
  if (!samples_ || !Results::Samples(set->epoch)) return;
  const uint64_t number = set->epoch / Results::kEvery;
  const std::optional<uint64_t> digest = DigestOfSample(running.batch, number);
  if (!digest) return;
  set->agreement->results().Say(
      {set->epoch, *digest}, Shown(RequestOfPiece(running, number % running.batch.pieces.size())));
}

Status ResultWatch::Look(const Sets& sets) const {
  for (const ProcessSetPtr& set : sets.mine()) {
    const std::string difference = set->agreement->results().TakeDifference();
    if (difference.empty()) continue;
    if (fails_) return Status::Internal(difference);
    log_.Warning(difference);
  }
  return Status::Ok();
}

}  // namespace hvdlite::engine
