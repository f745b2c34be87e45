#include "fake_gpu/nccl/rendezvous.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace fake_nccl {

size_t Pipe::Write(const char* data, size_t bytes) {
  const uint64_t written = written_.load(std::memory_order_relaxed);
  const size_t free = kRing - static_cast<size_t>(written - read_.load(std::memory_order_acquire));
  const size_t at = static_cast<size_t>(written % kRing);
  const size_t now = std::min({bytes, free, kRing - at});
  memcpy(ring_ + at, data, now);
  written_.store(written + now, std::memory_order_release);
  return now;
}

size_t Pipe::Read(char* data, size_t bytes) {
  const uint64_t read = read_.load(std::memory_order_relaxed);
  const size_t there = static_cast<size_t>(written_.load(std::memory_order_acquire) - read);
  const size_t at = static_cast<size_t>(read % kRing);
  const size_t now = std::min({bytes, there, kRing - at});
  memcpy(data, ring_ + at, now);
  read_.store(read + now, std::memory_order_release);
  return now;
}

std::unique_ptr<Rendezvous> Rendezvous::Open(const std::string& name, std::string* problem) {
  const auto failed = [&](const char* what) {
    *problem = std::string(what) + " " + name + ": " + strerror(errno);
    return nullptr;
  };
  const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return failed("cannot open shared memory");
  void* memory = MAP_FAILED;
  if (ftruncate(fd, sizeof(Shared)) == 0) {
    memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (memory == MAP_FAILED) return failed("cannot map shared memory");
  return std::unique_ptr<Rendezvous>(new Rendezvous(name, static_cast<Shared*>(memory)));
}

Rendezvous::~Rendezvous() {
  munmap(shared_, sizeof(Shared));
}

bool Rendezvous::Arrive(int rank, int ranks) {
  int said = 0;
  if (!shared_->ranks.compare_exchange_strong(said, ranks) && said != ranks) return false;
  if (shared_->taken[rank].exchange(true)) return false;
  ++shared_->here;
  return true;
}

void Rendezvous::Close() {
  shm_unlink(name_.c_str());  // the second to do so is told that it is gone
}

}  // namespace fake_nccl
