#include "pool/peers.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "pool/memory.h"

namespace hvdlite::pool {

Peers::Peers(int ranks, int me, Segment* own) : own_(own), mappings_(static_cast<size_t>(ranks)) {
  if (own != nullptr) Add(me, *own);
}

Peers::~Peers() {
  for (const Mapping& each : mappings_) {
    if (each.mapped_here) munmap(each.base, each.bytes);
  }
}

Status Peers::Map(int rank, int fd) {
  struct stat file{};
  const int seals = fcntl(fd, F_GET_SEALS);
  if (fstat(fd, &file) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return Status::Unsupported("a rank of this host gave no sealed memory");
  const auto bytes = static_cast<size_t>(file.st_size);
  char* const base = ReserveAddresses(bytes);
  if (base == nullptr || !MapFile(base, bytes, fd, 0, MAP_SHARED)) {
    const int error = errno;
    if (base != nullptr) munmap(base, bytes);
    return Status::FromErrno("cannot map a rank's gradients", error);
  }
  mappings_[static_cast<size_t>(rank)] = {base, bytes, true};
  if (!KeepFromChildren(base, bytes))
    return Status::FromErrno("cannot keep a rank's gradients from children", errno);
  return Status::Ok();
}

void Peers::Add(int rank, const Segment& segment) {
  mappings_[static_cast<size_t>(rank)] = {segment.base(), segment.bytes(), false};
}

int64_t Peers::Lend(void* memory, size_t bytes) const {
  return own_ == nullptr ? -1 : own_->Lend(memory, bytes);
}

char* Peers::At(int rank, int64_t offset, size_t bytes) const {
  const Mapping& its = mappings_[static_cast<size_t>(rank)];
  if (offset < 0 || static_cast<size_t>(offset) > its.bytes) return nullptr;
  if (bytes > its.bytes - static_cast<size_t>(offset)) return nullptr;
  return its.base + offset;
}

}  // namespace hvdlite::pool
