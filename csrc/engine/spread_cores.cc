#include "engine/spread_cores.h"

namespace hvdlite::engine {

bool MustMove(const cpu_set_t& allowed, const std::vector<int>& seen, int me, cpu_set_t* to) {
  const int mine = seen[static_cast<size_t>(me)];
  bool shared = false;
  for (int i = 0; i < me; ++i) shared |= seen[static_cast<size_t>(i)] == mine;
  if (mine < 0 || !shared || CPU_COUNT(&allowed) < static_cast<int>(seen.size())) return false;
  *to = allowed;
  for (int processor : seen) {
    if (processor >= 0 && processor < CPU_SETSIZE) CPU_CLR(processor, to);
  }
  return CPU_COUNT(to) > 0;
}

bool SpreadCores::Move(Nanos now) {
  if (!enabled_ || now < next_look_.load(std::memory_order_relaxed)) return false;
  next_look_.store(now + kLookEvery, std::memory_order_relaxed);
  const int mine = sched_getcpu();
  bool shared = false;
  for (int i = 0; i < local_rank_; ++i) {
    shared |= segment_.line(i).processor.load(std::memory_order_relaxed) == mine;
  }
  if (!shared) return false;
  next_look_.store(now + kMoveEvery, std::memory_order_relaxed);
  std::vector<int> seen;
  for (int i = 0; i < segment_.local_size(); ++i) {
    seen.push_back(i == local_rank_ ? mine
                                    : segment_.line(i).processor.load(std::memory_order_relaxed));
  }
  cpu_set_t allowed, free;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return false;
  if (!MustMove(allowed, seen, local_rank_, &free)) return false;
  if (sched_setaffinity(0, sizeof(free), &free) != 0) return false;
  sched_setaffinity(0, sizeof(allowed), &allowed);
  moves_.fetch_add(1, std::memory_order_relaxed);
  Publish();
  return true;
}

}  // namespace hvdlite::engine
