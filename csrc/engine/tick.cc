// What happens a few times a second, whether anything is going on or not: the heart beats, and the dead and the frozen
// are looked for. Called by whoever has the turn.
#include "engine/engine.h"

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
  CheckSilence(now);
}

// A rank whose heart has stopped is frozen (SIGSTOP, swapping, a hung file system), or its host is gone. A rank that is
// busy in user code has a beating heart, whatever it does. Only time during which this rank itself was alive counts, so a
// machine that was suspended as a whole does not accuse itself.
void Engine::CheckSilence(Nanos now) {
  const Nanos elapsed = std::min(now - last_alive_, 3 * kTickEvery);
  last_alive_ = now;
  const Nanos limit = static_cast<Nanos>(options_.config.heartbeat_seconds * static_cast<double>(kSecond));
  if (limit <= 0) return;
  transport::HostSegment& segment = world_->segment();
  silences_.resize(static_cast<size_t>(segment.local_size()));
  const rendezvous::Host& host = world_->roster().hosts[static_cast<size_t>(world_->place().host)];
  for (int local = 0; local < segment.local_size(); ++local) {
    Silence& silence = silences_[static_cast<size_t>(local)];
    const uint64_t beat = segment.line(local).heartbeat.load(std::memory_order_relaxed);
    if (local == world_->place().local_rank || beat != silence.heartbeat || segment.line(local).left.load() != 0) {
      silence = {beat, 0};
      continue;
    }
    silence.silent += elapsed;
    if (silence.silent < limit) continue;
    const int rank = host.ranks[static_cast<size_t>(local)];
    return FailNow(Status::PeerLost(
        rank, "rank " + std::to_string(rank) + " has given no sign of life for " +
                  std::to_string(silence.silent / kSecond) +
                  " s: its process is stopped (SIGSTOP, a debugger), starved of memory or hangs in the kernel. "
                  "HVDLITE_HEARTBEAT_SECONDS sets the limit; 0 turns this check off."));
  }
}

}  // namespace hvdlite::engine
