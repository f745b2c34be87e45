// Rendezvous: where the ranks of one communicator find each other: shared memory with a pipe from
// each to each.
//
// Each rank maps it anew, also when ranks are threads, so that to the thread sanitizer no rank's
// doings order another's. All of it begins as zeros, so nobody has to be first. Thread-safe, but of
// each pipe's two ends, which have one thread each at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace fake_nccl {

constexpr int kMostRanks = 16;

class Pipe {
 public:
  // As much as goes through now; never waits.
  size_t Write(const char* data, size_t bytes);
  size_t Read(char* data, size_t bytes);

 private:
  static constexpr size_t kRing = 64 << 10;
  std::atomic<uint64_t> written_;
  std::atomic<uint64_t> read_;
  char ring_[kRing];
};

class Rendezvous {
 public:
  // `name` comes from the unique id. Null: the system's words are in *problem.
  static std::unique_ptr<Rendezvous> Open(const std::string& name, std::string* problem);
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  Pipe& pipe(int from, int to) { return shared_->pipes[from][to]; }
  // False: the rank is there already, or somebody has said another number of ranks.
  bool Arrive(int rank, int ranks);
  bool AllHere() const { return shared_->here.load() == shared_->ranks.load(); }
  void Leave() { ++shared_->left; }
  bool AllLeft() const { return shared_->left.load() == shared_->ranks.load(); }
  // One rank's failure is all ranks'.
  void Fail() { shared_->failed = true; }
  bool failed() const { return shared_->failed; }
  // Nobody new comes.
  void Close();

 private:
  struct Shared {
    std::atomic<int> ranks;
    std::atomic<int> here;
    std::atomic<int> left;
    std::atomic<bool> failed;
    std::atomic<bool> taken[kMostRanks];
    Pipe pipes[kMostRanks][kMostRanks];
  };
  Rendezvous(std::string name, Shared* shared) : name_(std::move(name)), shared_(shared) {}

  const std::string name_;
  Shared* const shared_;
};

}  // namespace fake_nccl
