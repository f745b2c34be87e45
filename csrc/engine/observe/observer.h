// Observer: records what the engine does, for people. The engine calls it at each step of an
// operation; it never influences one.
//
// Thread-safety: the steps are for the holder of the turn; everything else from any thread.
#pragma once

#include <atomic>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/log.h"
#include "base/spans.h"
#include "engine/observe/question.h"
#include "engine/observe/recorder.h"
#include "engine/observe/timeline.h"
#include "engine/process_set.h"
#include "pool/segment.h"

namespace hvdlite::engine {

class Observer {
 public:
  // Borrows `log`.
  Observer(const Config& config, int rank, const Logger* log);

  // ---- The steps of an operation
  void Announced(const ProcessSet& set, const Entry& entry, bool by_slot, Nanos now);
  // On the root, after WatchArrivals.
  void Arrived(const ProcessSet& set, const Ledger::Arrival& arrival);
  void Began(const ProcessSet& set, const Running& running, Nanos now);
  void Ended(const ProcessSet& set, const Running& running, Nanos now);
  // For an operation that was performed without the steps above.
  void TookFastPath(const ProcessSet& set, const Request& request, size_t bytes,
                    comm::Carrier carrier, Nanos asked, Nanos now);
  void Failed(const ProcessSet& set, const Entry& entry, Nanos now);
  // For an operation that this rank has not asked for.
  // A list has ended of which each tensor was an operation.
  void TookListApart() { lists_taken_apart_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t lists_taken_apart() const { return lists_taken_apart_.load(std::memory_order_relaxed); }
  void FailedElsewhere(const ProcessSet& set, const std::string& name, Nanos now);
  void Turned(Nanos now) {
    if (timeline_.marks_cycles() && timeline_.on()) timeline_.MarkCycle(now);
  }

  // ---- The timeline of this rank, from now on. "trace.json" is rank 0's. If all ranks write, rank
  // 3's is "trace.rank3.json".
  Status StartTimeline(const std::string& path, bool mark_cycles);
  void StopTimeline();
  // Whether a program has started a timeline on this rank. If this rank writes none, it shows its
  // requests to the ranks that do.
  bool watches_arrivals() const { return watches_arrivals_.load(std::memory_order_relaxed); }

  // Where the program is, for the thread that can tell.
  Question& question() { return question_; }

  // ---- Reports as JSON
  struct Elsewhere {
    std::vector<std::pair<int, Nanos>> waited_for;  // on the root, by rank
    uint64_t background_wakes = 0;
    uint64_t moves = 0;                    // to another processor
    std::string autotune;                  // JSON; empty: off
    std::optional<pool::Stats> gradients;  // where they are allocated in shared memory
    const std::deque<comm::Interface>* interfaces = nullptr;
  };
  // Also for the holder of the turn.
  std::string Metrics(const Elsewhere& elsewhere, const comm::CarrierCounts& carrier_counts) const;
  std::string Recent();

 private:
  // Counts and records one operation. `record` has its times and the size of its batch.
  void Performed(const ProcessSet& set, const Request& request, size_t bytes, Record record);
  void PerformedList(const ProcessSet& set, const Request& list, Record record);
  void ShowEnd(const ProcessSet& set, const Running& running, Nanos now);

  const int rank_;
  const bool all_write_;  // ranks other than 0 write a timeline, too
  std::atomic<bool> watches_arrivals_{false};
  Timeline timeline_;
  Question question_;
  Recorder recorder_;
  std::atomic<uint64_t> operations_{0};
  std::atomic<uint64_t> failures_{0};
  std::atomic<uint64_t> batches_{0};
  std::atomic<uint64_t> fused_{0};  // batches of several tensors
  std::atomic<uint64_t> lists_{0};  // carried out as one
  std::atomic<uint64_t> lists_taken_apart_{0};
  std::atomic<uint64_t> batches_on_gpu_{0};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint64_t> requests_{0};  // sent in full
  std::atomic<uint64_t> slots_{0};     // sent as a number
  Spans negotiating_;                  // from submission to agreement, of operations
  Spans moving_;                       // from agreement to the end, of batches
};

}  // namespace hvdlite::engine
