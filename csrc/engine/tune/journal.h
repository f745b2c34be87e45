// Journal: writes the files of autotuning in a thread of its own, so that a slow disk never holds
// up a collective.
//
// Thread-safety: one caller at a time.
#pragma once

#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"

namespace hvdlite::engine {

class Journal {
 public:
  ~Journal();  // writes what is left

  // Opens the table. `append`: after what it holds already. kIo names the file.
  Status Open(const std::string& path, bool append);
  // Adds a line to the table, if there is one.
  void Line(const std::string& line);
  // Replaces a file. A reader finds the old text or the new one.
  void Replace(const std::string& path, const std::string& text);

 private:
  struct Job {
    std::string path;  // empty: a line of the table
    std::string text;
  };
  void Add(Job job) EXCLUDES(mutex_);
  void Write();
  void Do(const Job& job);

  Mutex mutex_;
  CondVar changed_;
  std::vector<Job> jobs_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  FILE* table_ = nullptr;  // the writer's, once it runs
  std::thread writer_;
};

}  // namespace hvdlite::engine
