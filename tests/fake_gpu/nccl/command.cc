#include "fake_gpu/nccl/command.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include "fake_gpu/cuda/unseen.h"
#include "fake_gpu/fake_nccl.h"

namespace fake_nccl {

namespace {

struct Failure {
  std::string symbol;
  int rank;
  int calls_left;
  int result;
};

// Streams come here, too: that must not look like an order among them.
class Lock {
 public:
  explicit Lock(std::mutex& mutex) : lock_(mutex) {}

 private:
  hvdlite::fake_gpu::Unseen unseen_;
  std::lock_guard<std::mutex> lock_;
};

class Commands {
 public:
  static Commands& Get() {
    // Outlives the threads of streams at the end of the process.
    static Commands* const commands = new Commands();
    return *commands;
  }

  void Reset() {
    const Lock lock(mutex_);
    settings_ = {{"version", 22803}, {"seed", 1},   {"delay_us", 200}, {"background", 50},
                 {"memory", 0},      {"linger", 0}, {"hold_abort", 0}};
    for (auto& [name, value] : settings_) {
      std::string variable = "FAKE_NCCL_" + name;
      for (char& c : variable) c = static_cast<char>(toupper(c));
      if (const char* text = getenv(variable.c_str())) value = atol(text);
    }
    failures_.clear();
    complaints_.clear();
    calls_.clear();
    drawn_ = 0;
    const char* text = getenv("FAKE_NCCL_FAIL");
    std::istringstream list(text != nullptr ? text : "");
    for (std::string entry; std::getline(list, entry, ',');) {
      char symbol[64];
      Failure failure{};
      if (sscanf(entry.c_str(), "%63[^:]:%d:%d:%d", symbol, &failure.rank, &failure.calls_left,
                 &failure.result) != 4) {
        fprintf(stderr, "fake NCCL: FAKE_NCCL_FAIL: '%s' is not symbol:rank:nth:result\n",
                entry.c_str());
        abort();
      }
      failure.symbol = symbol;
      failures_.push_back(failure);
    }
  }

  void Set(const std::string& name, long value) {
    const Lock lock(mutex_);
    settings_.at(name) = value;
  }
  long Setting(const std::string& name) {
    const Lock lock(mutex_);
    return settings_.at(name);
  }
  void Fail(Failure failure) {
    const Lock lock(mutex_);
    failures_.push_back(std::move(failure));
  }
  int Called(const std::string& symbol, int rank) {
    const Lock lock(mutex_);
    ++calls_[symbol];
    for (auto failure = failures_.begin(); failure != failures_.end(); ++failure) {
      if (failure->symbol != symbol || (failure->rank != rank && failure->rank != -1)) continue;
      if (--failure->calls_left > 0) continue;
      const int result = failure->result;
      failures_.erase(failure);
      if (result < 0) kill(getpid(), -result);
      return result;
    }
    return 0;
  }
  long Calls(const std::string& symbol) {
    const Lock lock(mutex_);
    return calls_[symbol];
  }
  void Complain(const std::string& what) {
    const Lock lock(mutex_);
    fprintf(stderr, "fake NCCL: %s\n", what.c_str());
    complaints_.push_back(what);
  }
  int Complaints(char* text, size_t bytes) {
    const Lock lock(mutex_);
    std::string all;
    for (const std::string& complaint : complaints_) all += complaint + "\n";
    if (bytes > 0) snprintf(text, bytes, "%s", all.c_str());
    return static_cast<int>(complaints_.size());
  }
  void Forgive() {
    const Lock lock(mutex_);
    complaints_.clear();
  }
  unsigned Draw() {
    const Lock lock(mutex_);
    // splitmix64
    uint64_t z =
        (static_cast<uint64_t>(settings_.at("seed")) << 32) + ++drawn_ * 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<unsigned>((z ^ (z >> 31)) >> 16);
  }

 private:
  Commands() { Reset(); }

  std::mutex mutex_;
  std::map<std::string, long> settings_;
  std::vector<Failure> failures_;
  std::vector<std::string> complaints_;
  std::map<std::string, long> calls_;
  uint64_t drawn_ = 0;
};

}  // namespace

long Setting(const std::string& name) {
  return Commands::Get().Setting(name);
}

unsigned Random(unsigned below) {
  return below == 0 ? 0 : Commands::Get().Draw() % below;
}

void BeLate() {
  if (Random(2) == 0) return;
  std::this_thread::sleep_for(
      std::chrono::microseconds(Random(static_cast<unsigned>(Setting("delay_us") + 1))));
}

int Called(const std::string& symbol, int rank) {
  return Commands::Get().Called(symbol, rank);
}

void Complain(const std::string& what) {
  Commands::Get().Complain(what);
}

}  // namespace fake_nccl

using fake_nccl::Commands;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED void fake_nccl_set(const char* name, long value) {
  Commands::Get().Set(name, value);
}
EXPORTED void fake_nccl_reset() {
  Commands::Get().Reset();
}
EXPORTED void fake_nccl_fail(const char* symbol, int rank, int nth, int result) {
  Commands::Get().Fail({symbol, rank, nth, result});
}
EXPORTED long fake_nccl_calls(const char* symbol) {
  return Commands::Get().Calls(symbol);
}
EXPORTED int fake_nccl_complaints(char* text, size_t bytes) {
  return Commands::Get().Complaints(text, bytes);
}
EXPORTED void fake_nccl_forgive() {
  Commands::Get().Forgive();
}
