// Timeline: records each phase of each operation, in the JSON that chrome://tracing and Perfetto
// open.
//
//   rank 0   | allreduce.a                                |   the rank that writes the file
//            |  NEGOTIATE_ALLREDUCE        | ALLREDUCE    |
//            |  0          1          2    |  SHM_...     |   when each rank asked
//   rank 1   .             | allreduce.a   |                  from its request to the agreement
//   rank 2   .                        | ...|                  the shortest one was waited for
//
// Each rank is a "process" of the trace. Operations that overlap are on different threads of it
// ("lanes"), and an operation has the same lane on all ranks. Only the root of the negotiation
// knows of other ranks. `hvdlite timeline merge` (hvdlite/observe/timeline) reads the files of all
// ranks: the name of a rank's process comes with its clock, and the end of an operation with the
// number of the decision, which is the same on all ranks.
//
// Thread-safety: Start, Stop and the events from any thread. The caller formats events; a separate
// thread writes them, so that a slow disk never holds up a collective. If the file cannot grow any
// more, that thread warns, and the timeline ends.
#pragma once

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/status.h"
#include "engine/observe/trace_file.h"

namespace hvdlite::engine {

class Timeline {
 public:
  // `most_bytes`: of a file. Borrows `log`.
  Timeline(int64_t most_bytes, const Logger* log) : log_(*log), file_(most_bytes) {}
  ~Timeline() { Stop(); }

  // kIo names the file. kInvalidArgument if already started.
  Status Start(const std::string& path, bool mark_cycles, int rank) EXCLUDES(life_mutex_, mutex_);
  // Writes the remaining events and closes. Does nothing if not started.
  void Stop() EXCLUDES(life_mutex_, mutex_);

  bool on() const { return on_.load(std::memory_order_relaxed); }
  bool marks_cycles() const { return mark_cycles_.load(std::memory_order_relaxed); }

  // `rank` asks for an operation. The first rank that asks begins `phase`, the negotiation. A fast
  // rank may ask again while this rank is still busy with the round before. The next negotiation
  // then begins when that round is closed.
  void Arrive(const std::string& operation, const std::string& phase, int rank, Nanos now)
      EXCLUDES(mutex_);
  // All ranks have asked. Ends the negotiation, if it was recorded.
  void Agree(const std::string& operation, Nanos now) EXCLUDES(mutex_);
  // Begin and end nested phases. End closes the innermost one; `args` is a JSON object or empty.
  void Begin(const std::string& operation, const std::string& phase, Nanos now) EXCLUDES(mutex_);
  void End(const std::string& operation, Nanos now, const std::string& args = "") EXCLUDES(mutex_);
  // Ends the operation and all its open phases. Does nothing if its begin was not recorded.
  void Close(const std::string& operation, Nanos now) EXCLUDES(mutex_);
  // The same, with "ERROR" at the end.
  void Fail(const std::string& operation, Nanos now) EXCLUDES(mutex_);
  void MarkCycle(Nanos now) EXCLUDES(mutex_);

 private:
  struct Operation {
    int lane = 0;
    int depth = 0;  // open phases
    bool agreed = false;
    // rank and time; after the agreement, those of the next round
    std::vector<std::pair<int, Nanos>> arrived;
    std::string phase;  // the phase that the arrivals begin
  };

  Operation* Open(const std::string& name, Nanos now) REQUIRES(mutex_);
  // `at`: when the rank asked, not later than now.
  void ArriveOpen(const std::string& name, const std::string& phase, int rank, Nanos at, Nanos now)
      REQUIRES(mutex_);
  void EndPhases(Operation* operation, int down_to, Nanos now) REQUIRES(mutex_);
  void CloseOpen(const std::string& name, bool failed, Nanos now) REQUIRES(mutex_);
  // An event on a lane of a rank. `more` follows, as members of the JSON object.
  void Event(char kind, int rank, int lane, const std::string& name, Nanos at,
             const std::string& more = "") REQUIRES(mutex_);
  void NameLane(int rank, int lane) REQUIRES(mutex_);
  void Describe(const char* what, int rank, int lane, const std::string& args) REQUIRES(mutex_);
  void Append(const std::string& event) REQUIRES(mutex_);
  void Write();

  const Logger& log_;
  std::atomic<bool> on_{false};
  std::atomic<bool> mark_cycles_{false};
  Mutex life_mutex_;  // Start and Stop, one at a time; taken first
  Mutex mutex_;
  CondVar changed_;
  std::string pending_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, Operation> open_ GUARDED_BY(mutex_);
  std::set<int> free_lanes_ GUARDED_BY(mutex_);  // of the first `lanes_`
  int lanes_ GUARDED_BY(mutex_) = 0;
  std::set<std::pair<int, int>> named_ GUARDED_BY(mutex_);  // rank and lane
  int rank_ GUARDED_BY(mutex_) = 0;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool first_ GUARDED_BY(mutex_) = true;
  Nanos started_ GUARDED_BY(mutex_) = 0;
  TraceFile file_;  // used by the writer, once it runs
  std::thread writer_;
};

}  // namespace hvdlite::engine
