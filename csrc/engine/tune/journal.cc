#include "engine/tune/journal.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/thread.h"

namespace hvdlite::engine {

Journal::~Journal() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (writer_.joinable()) writer_.join();
  if (table_ != nullptr) fclose(table_);
}

Status Journal::Open(const std::string& path, bool append) {
  table_ = fopen(path.c_str(), append ? "a" : "w");
  if (table_ != nullptr) return Status::Ok();
  return Status::FromErrno("cannot write the log of autotuning to '" + path + "'", errno);
}

void Journal::Line(const std::string& line) {
  if (table_ != nullptr) Add({"", line + "\n"});
}

void Journal::Replace(const std::string& path, const std::string& text) {
  Add({path, text});
}

void Journal::Add(Job job) {
  MutexLock lock(mutex_);
  if (!writer_.joinable()) writer_ = std::thread([this] { Write(); });
  jobs_.push_back(std::move(job));
  changed_.NotifyAll();
}

void Journal::Write() {
  NameThisThread("hvdlite-tune");
  for (bool last = false; !last;) {
    std::vector<Job> jobs;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stopping_) changed_.WaitFor(mutex_, kSecond);
      jobs.swap(jobs_);
      last = stopping_;
    }
    for (const Job& job : jobs) Do(job);
    if (table_ != nullptr) fflush(table_);
  }
}

void Journal::Do(const Job& job) {
  if (job.path.empty()) {
    fwrite(job.text.data(), 1, job.text.size(), table_);
    return;
  }
  const std::string fresh = job.path + ".new";
  FILE* const file = fopen(fresh.c_str(), "w");
  if (file == nullptr) return;  // the job is more important than its result for the next one
  const bool written = fwrite(job.text.data(), 1, job.text.size(), file) == job.text.size();
  if (fclose(file) == 0 && written) {
    (void)rename(fresh.c_str(), job.path.c_str());
  } else {
    (void)unlink(fresh.c_str());
  }
}

}  // namespace hvdlite::engine
