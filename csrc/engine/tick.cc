// What happens a few times a second, whether anything is going on or not: the heart beats, and the
// dead and the frozen are looked for. Called by the holder of the turn.
#include <algorithm>

#include "engine/engine.h"
#include "engine/negotiate/validate.h"

namespace hvdlite::engine {

void Engine::Tick(Nanos now) {
  last_tick_.store(now, std::memory_order_relaxed);
  transport::HostSegment& segment = world_->segment();
  segment.line(world_->place().local_rank).heartbeat.fetch_add(1, std::memory_order_seq_cst);
  if (ended_) return;
  // Before the sockets: a neighbour that has left because of a failure has said so here.
  if (segment.aborted()) return FailNow(segment.abort_status());
  const Status neighbours = world_->neighbours().Check();
  if (!neighbours.ok()) {
    if (!closing_.ok()) return Finish(closing_);
    return FailNow(neighbours);
  }
  const Status door = world_->Tend();
  if (!door.ok()) log_.Warning(door.message());
  for (const auto& set : active_) CheckInFlight(set.get());
  if (ended_) return;
  CheckSilence(now);
  if (!ended_ && !options_.config.stall_check_disable) CheckStalls(now);
}

// The root of a set looks for operations that some ranks have asked for long ago and others have
// not. It first asks all ranks where they are, and speaks a second later, with the answers.
void Engine::CheckStalls(Nanos now) {
  const auto nanos = [](double seconds) {
    return static_cast<Nanos>(seconds * static_cast<double>(kSecond));
  };
  const StallOptions options{nanos(options_.config.stall_check_time_seconds),
                             nanos(options_.config.stall_shutdown_time_seconds)};
  const std::string answer = question_.TakeAnswer();
  // A set may be removed, and the engine may end, while this goes on.
  const std::vector<std::shared_ptr<ProcessSet>> sets = active_;
  for (const auto& set : sets) {
    if (!answer.empty())
      set->agreement->AnswerWhere(answer, now - last_submission_.load(std::memory_order_relaxed));
    if (!set->agreement->is_root()) continue;
    const auto stall = stalls_.find(set->id);
    if (stall != stalls_.end()) {
      if (now >= stall->second.speak_at) SpeakVerdict(set.get());
      continue;
    }
    Nanos& next = next_stall_check_[set->id];
    if (now < next) continue;
    next = now + std::min(options.warn_after, kSecond);
    StallReport report =
        InspectStalls(set->agreement->ledger().pending(), set->ranks, now, options);
    if (report.warning.empty()) continue;
    next = now + options.warn_after;
    stalls_[set->id] = {std::move(report), now + kSecond};
    set->agreement->AskWhere(&set->heard);
  }
}

void Engine::SpeakVerdict(ProcessSet* set) {
  const StallReport report = std::move(stalls_[set->id].report);
  stalls_.erase(set->id);
  const auto& answers = set->agreement->answers();
  const auto seconds = [](Nanos span) { return std::to_string(span / kSecond) + " s"; };
  std::string verdict;
  for (int rank : report.missing) {
    const auto answer = answers.find(rank);
    if (!verdict.empty()) verdict += "; ";
    verdict += "rank " + std::to_string(rank);
    verdict += answer == answers.end()
                   ? " does not say where it is (its Python is inside native code that holds the "
                     "interpreter lock, or its answer does "
                     "not get through)"
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
  if (!report.shut_down) return log_.Warning(report.warning + "\n" + verdict);
  log_.Error(report.warning);
  FailNow(Status::ShutDown("Horovod has been shut down (hvdlite) because operations stalled: " +
                           verdict));
}

// A rank whose heart has stopped is frozen (SIGSTOP, swapping, a hung file system), or its host is
// gone. A rank that is busy in user code has a beating heart, whatever it does.
void Engine::CheckSilence(Nanos now) {
  silences_.Look(now);
  remote_silences_.Look(now);
  const Nanos limit =
      static_cast<Nanos>(options_.config.heartbeat_seconds * static_cast<double>(kSecond));
  // Once all have agreed to end, a rank that has finished beats no more.
  if (!closing_.ok()) return;
  // Between hosts the edges of the world's negotiation tree carry the beat, also of a rank that
  // does not ask for the others'.
  if (world_->multi_host()) active_[0]->agreement->SendAlive();
  if (limit <= 0) return;
  const auto frozen = [](int rank, Nanos silent) {
    return Status::PeerLost(
        rank, "rank " + std::to_string(rank) + " has given no sign of life for " +
                  std::to_string(silent / kSecond) +
                  " s: its process is stopped (SIGSTOP, a debugger), starved of memory or hangs in "
                  "the kernel, or its host "
                  "is gone. HVDLITE_HEARTBEAT_SECONDS sets the limit; 0 turns this check off.");
  };
  transport::HostSegment& segment = world_->segment();
  const rendezvous::Host& host = world_->roster().hosts[static_cast<size_t>(world_->place().host)];
  for (int local = 0; local < segment.local_size(); ++local) {
    if (local == world_->place().local_rank || segment.line(local).left.load() != 0) continue;
    const int rank = host.ranks[static_cast<size_t>(local)];
    const Nanos silent =
        silences_.Of(rank, segment.line(local).heartbeat.load(std::memory_order_relaxed));
    if (silent >= limit) return FailNow(frozen(rank, silent));
  }
  if (!world_->multi_host()) return;
  CheckOutages(now, LongestOutage(limit));
  if (ended_) return;
  for (const Agreement::Heard& heard : active_[0]->agreement->LastHeard()) {
    const int rank = heard.from->peer();
    const Nanos silent =
        remote_silences_.Of(rank, static_cast<uint64_t>(heard.at), outages_.Open(heard.from));
    if (silent >= limit) return FailNow(frozen(rank, silent));
  }
}

// Of all links: one that carries tensors may lose large packets where the negotiation's small ones
// get through.
void Engine::CheckOutages(Nanos now, Nanos limit) {
  outages_.Look(now);
  for (const auto& set : active_) {
    for (const auto& link : set->group->transports) {
      const Nanos outage = outages_.Of(link.get(), link->acknowledged());
      if (outage < limit) continue;
      return FailNow(Status::PeerLost(
          link->peer(),
          link->Name() + " is interrupted: bytes are sent, but nothing has been acknowledged for " +
              std::to_string(outage / kSecond) +
              " s. The network between the two hosts is down or loses packets of some size (an MTU "
              "that "
              "differs on the way?), or that host is gone. HVDLITE_HEARTBEAT_SECONDS sets the "
              "limit; 0 "
              "turns this check off."));
    }
  }
}

}  // namespace hvdlite::engine
