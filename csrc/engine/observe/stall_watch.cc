#include "engine/observe/stall_watch.h"

#include <algorithm>

#include "engine/observe/verdict.h"

namespace hvdlite::engine {

Status StallWatch::Look(Nanos now, const std::optional<Whereabouts>& mine, const Sets& sets) {
  for (const ProcessSetPtr& set : sets.mine()) {
    if (mine) set->agreement->AnswerWhere(set->group->me, *mine);
    if (set->agreement->is_root()) HVDLITE_RETURN_IF_ERROR(LookAt(set.get(), now));
  }
  return Status::Ok();
}

StallReport StallWatch::Inspect(const ProcessSet& set, Nanos at) const {
  return InspectStalls(set.agreement->ledger().pending(), set.ranks, at, options_);
}

Status StallWatch::LookAt(ProcessSet* set, Nanos now) {
  Watched& watched = watched_[set->id];
  if (watched.asked == 0 && now < watched.next_look) return Status::Ok();
  const Nanos ahead = std::min(options_.warn_after / 2, kSecond);
  watched.next_look = now + ahead / 2;
  const auto speaks = [&watched](const StallReport& report, Nanos at) {
    return !report.warning.empty() && (report.shut_down || at >= watched.next_warning);
  };
  if (!speaks(Inspect(*set, now + ahead), now + ahead)) {
    watched.asked = 0;  // it goes on
    return Status::Ok();
  }
  if (watched.asked == 0) {
    watched.asked = now;
    set->agreement->Tell(Down::kWhere, 0, &set->heard);
  }
  const StallReport report = Inspect(*set, now);
  const bool all = set->agreement->answers().size() == set->ranks.size();
  if (!speaks(report, now) || (!all && now < watched.asked + ahead + kSecond)) return Status::Ok();
  watched.asked = 0;
  watched.next_warning = now + options_.warn_after;
  return Speak(set, report);
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
