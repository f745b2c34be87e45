// Watchdog: a test that hangs must say where, and end. If an object of this class lives longer than
// its limit, it prints what every rank said last, asks every thread of the process for its stack,
// and aborts.
#pragma once

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace hvdlite::testing {

// Sanitizers and machines with few processors make everything slower; limits scale with this.
inline double Patience() {
  const char* text = getenv("HVDLITE_TEST_PATIENCE");
  return text != nullptr ? atof(text) : 1.0;
}

class Watchdog {
 public:
  // `hint` is called before the end, from another thread; it returns what is known about who waits
  // for what.
  explicit Watchdog(double seconds, std::function<std::string()> hint = nullptr)
      : limit_(seconds * Patience()), hint_(std::move(hint)), thread_([this] { Watch(); }) {}
  ~Watchdog() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void Watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto until = std::chrono::system_clock::now() + std::chrono::duration<double>(limit_);
    while (!over_) {
      // system_clock: what old TSAN runtimes understand.
      if (changed_.wait_until(
              lock, std::chrono::time_point_cast<std::chrono::system_clock::duration>(until)) ==
              std::cv_status::timeout &&
          !over_) {
        Bark();
      }
    }
  }

  [[noreturn]] void Bark() {
    fprintf(stderr, "\nWATCHDOG: the test hangs for %.0f s.\n%s\n", limit_,
            hint_ ? hint_().c_str() : "");
    struct sigaction action = {};
    action.sa_handler = [](int) {
      void* frames[64];
      const int depth = backtrace(frames, 64);
      backtrace_symbols_fd(frames, depth, 2);
    };
    sigaction(SIGUSR2, &action, nullptr);
    if (DIR* tasks = opendir("/proc/self/task")) {
      while (const dirent* task = readdir(tasks)) {
        const int tid = atoi(task->d_name);
        if (tid == 0 || tid == static_cast<int>(syscall(SYS_gettid))) continue;
        std::string name;
        std::getline(std::ifstream("/proc/self/task/" + std::to_string(tid) + "/comm"), name);
        fprintf(stderr, "--- thread %d '%s' (addr2line -Cfe <test> <address>):\n", tid,
                name.c_str());
        syscall(SYS_tgkill, getpid(), tid, SIGUSR2);
        usleep(50000);
      }
      closedir(tasks);
    }
    abort();
  }

  const double limit_;
  const std::function<std::string()> hint_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace hvdlite::testing
