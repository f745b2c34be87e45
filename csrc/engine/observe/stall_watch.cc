#include "engine/observe/stall_watch.h"

#include <algorithm>
#include <utility>

#include "engine/observe/verdict.h"

namespace hvdlite::engine {

Status StallWatch::Look(Nanos now, const std::optional<Whereabouts>& mine, const Sets& sets) {
  for (const ProcessSetPtr& set : sets.mine()) {
    if (mine) set->agreement->AnswerWhere(set->group->me, *mine);
    if (set->agreement->is_root()) HVDLITE_RETURN_IF_ERROR(LookAt(set.get(), now));
  }
  return Status::Ok();
}

Status StallWatch::LookAt(ProcessSet* set, Nanos now) {
  Watched& watched = watched_[set->id];
  if (watched.speak_at > 0) {
    if (now < watched.speak_at && set->agreement->answers().size() < set->ranks.size())
      return Status::Ok();
    watched.speak_at = 0;
    return Speak(set, std::exchange(watched.report, {}));
  }
  if (now < watched.next_check) return Status::Ok();
  watched.next_check = now + std::min(options_.warn_after, kSecond);
  watched.report = InspectStalls(set->agreement->ledger().pending(), set->ranks, now, options_);
  if (watched.report.warning.empty()) return Status::Ok();
  watched.next_check = now + options_.warn_after;
  watched.speak_at = now + kSecond;
  set->agreement->Tell(Down::kWhere, 0, &set->heard);
  return Status::Ok();
}

Status StallWatch::Speak(ProcessSet* set, const StallReport& report) const {
  StallFacts facts{report.operations, set->agreement->answers(), {}};
  for (StalledOperation& operation : facts.operations)
    operation.rounds = set->Rounds(operation.name);
  for (const int rank : facts.operations[0].missing) {
    if (facts.said.count(rank) == 0) facts.why_silent[rank] = why_silent_(rank);
  }
  const std::string verdict = DecideStall(facts);
  set->agreement->Tell(Down::kVerdict, 0, &set->heard, verdict);
  if (!report.shut_down) {
    log_.Warning(report.warning + "\n" + verdict);
    return Status::Ok();
  }
  log_.Error(report.warning);
  return Status::ShutDown("Horovod has been shut down (hvdlite) because operations stalled: " +
                          verdict);
}

void StallWatch::Forget(int set) {
  watched_.erase(set);
}

}  // namespace hvdlite::engine
