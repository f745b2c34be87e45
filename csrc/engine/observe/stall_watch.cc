#include "engine/observe/stall_watch.h"

#include <algorithm>
#include <utility>

#include "engine/negotiate/validate.h"

namespace hvdlite::engine {

Status StallWatch::Look(Nanos now, const std::string& answer, Nanos idle, const Sets& sets) {
  for (const ProcessSetPtr& set : sets.mine()) {
    if (!answer.empty()) set->agreement->AnswerWhere(answer, idle);
    if (set->agreement->is_root()) HVDLITE_RETURN_IF_ERROR(LookAt(set.get(), now));
  }
  return Status::Ok();
}

Status StallWatch::LookAt(ProcessSet* set, Nanos now) {
  Watched& watched = watched_[set->id];
  if (watched.speak_at > 0) {
    if (now < watched.speak_at) return Status::Ok();
    watched.speak_at = 0;
    return Speak(std::exchange(watched.report, {}), set->agreement->answers());
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

Status StallWatch::Speak(const StallReport& report,
                         const std::map<int, Agreement::Answer>& answers) const {
  const auto seconds = [](Nanos span) { return std::to_string(span / kSecond) + " s"; };
  std::string verdict;
  for (int rank : report.missing) {
    const auto answer = answers.find(rank);
    if (!verdict.empty()) verdict += "; ";
    verdict += "rank " + std::to_string(rank);
    verdict += answer == answers.end()
                   ? " does not say where it is (its Python is inside native code that holds the "
                     "interpreter lock, or its answer does not get through)"
                   : " is in " + answer->second.place + " and has submitted nothing for " +
                         seconds(answer->second.idle);
  }
  verdict += "; " + RankList(report.waiting) + (report.waiting.size() == 1 ? " waits" : " wait") +
             " in " + report.oldest + " for " + seconds(report.oldest_age);
  for (int rank : report.waiting) {
    const auto answer = answers.find(rank);
    if (answer == answers.end()) continue;
    verdict += ", at " + answer->second.place;
    break;
  }
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
