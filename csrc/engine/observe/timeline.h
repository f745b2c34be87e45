// Timeline: what happened to each tensor when, in the JSON that chrome://tracing and Perfetto open.
//
// Each tensor is a "process" of the trace; its phases are nested there: NEGOTIATE_ALLREDUCE until all ranks have asked, then
// ALLREDUCE with the communicator's activity (SHM_ALLREDUCE, NET_ALLREDUCE, ...) inside. The file is a complete JSON array
// after every flush, so a job that dies leaves a readable one.
//
// Thread-safety: Start, Stop and the events from any thread. Events are formatted by the caller and written by a thread of
// its own, so that a slow disk never holds up a collective.
#pragma once

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace hvdlite::engine {

class Timeline {
 public:
  ~Timeline() { Stop(); }

  // kIo names the file. Starting while started is kInvalidArgument.
  Status Start(const std::string& path, bool mark_cycles, int rank) EXCLUDES(life_mutex_, mutex_);
  // Writes what is left and closes. Does nothing if not started.
  void Stop() EXCLUDES(life_mutex_, mutex_);

  bool on() const { return on_.load(std::memory_order_relaxed); }
  bool marks_cycles() const { return mark_cycles_.load(std::memory_order_relaxed); }

  // Nested phases of one tensor. End closes the innermost one; `args` is a JSON object or empty.
  void Begin(const std::string& tensor, const std::string& phase, Nanos now) EXCLUDES(mutex_);
  void End(const std::string& tensor, Nanos now, const std::string& args = "") EXCLUDES(mutex_);
  // A moment within a phase: "rank 3 was ready".
  void Mark(const std::string& tensor, const std::string& what, Nanos now) EXCLUDES(mutex_);
  void MarkCycle(Nanos now) EXCLUDES(mutex_);

 private:
  void Event(const std::string& tensor, char kind, const std::string& name, Nanos now, const std::string& more)
      REQUIRES(mutex_);
  int Process(const std::string& tensor) REQUIRES(mutex_);
  void Append(const std::string& event) REQUIRES(mutex_);
  void Write();

  std::atomic<bool> on_{false};
  std::atomic<bool> mark_cycles_{false};
  Mutex life_mutex_;  // Start and Stop, one at a time; taken first
  Mutex mutex_;
  CondVar changed_;
  std::string pending_ GUARDED_BY(mutex_);
  std::unordered_map<std::string, int> processes_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool first_ GUARDED_BY(mutex_) = true;
  Nanos started_ GUARDED_BY(mutex_) = 0;
  FILE* file_ = nullptr;  // of the writer, once it runs
  std::thread writer_;
};

}  // namespace hvdlite::engine
