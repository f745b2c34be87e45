#include "fake_gpu/cuda/memory.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace hvdlite::fake_gpu {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 256;  // CUDA's
constexpr size_t kGraves = 256;

size_t RoundUp(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

// -1 where the processor has none.
int ProtectionKey() {
  static const int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
  return key;
}

void Must(bool done, const char* what) {
  if (done) return;
  perror(what);
  abort();
}

}  // namespace

void Memory::Touch(bool allowed) {
  if (ProtectionKey() >= 0) pkey_set(ProtectionKey(), allowed ? 0 : PKEY_DISABLE_ACCESS);
}

void* Memory::New(size_t bytes, int device, size_t limit, bool protect) {
  if (device != kPinned && used_[device] + bytes > limit) return nullptr;
  const size_t room = RoundUp(bytes, kAlignment);
  const size_t mapped = RoundUp(room, kPage) + kPage;
  void* const at =
      mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  Must(at != MAP_FAILED, "fake cuda: mmap");
  char* const mapping = static_cast<char*>(at);
  const bool guarded = protect && device != kPinned && ProtectionKey() >= 0;
  Must(guarded
           ? pkey_mprotect(mapping, mapped - kPage, PROT_READ | PROT_WRITE, ProtectionKey()) == 0
           : mprotect(mapping, mapped - kPage, PROT_READ | PROT_WRITE) == 0,
       "fake cuda: mprotect");
  char* const data = mapping + (mapped - kPage - room);
  blocks_[Key(data)] = {bytes, device, mapping, mapped};
  used_[device] += bytes;
  return data;
}

bool Memory::Retire(const void* data, int device) {
  const auto found = blocks_.find(Key(data));
  if (found == blocks_.end() || found->second.retired || found->second.device != device)
    return false;
  found->second.retired = true;
  return true;
}

void Memory::Release(const void* data) {
  const auto found = blocks_.find(Key(data));
  const Block block = found->second;
  blocks_.erase(found);
  used_[block.device] -= block.bytes;
  // Gives the pages back and keeps the addresses.
  Must(mmap(block.mapping, block.mapped, PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED,
       "fake cuda: mmap");
  graves_.push_back({block.mapping, block.mapped});
  if (graves_.size() <= kGraves) return;
  munmap(graves_.front().mapping, graves_.front().mapped);
  graves_.pop_front();
}

Memory::Map::const_iterator Memory::Find(const void* data) const {
  const auto after = blocks_.upper_bound(Key(data));
  if (after == blocks_.begin()) return blocks_.end();
  const auto found = std::prev(after);
  return Key(data) < found->first + found->second.bytes ? found : blocks_.end();
}

bool Memory::Holds(const void* data, size_t bytes, int device) const {
  const auto found = Find(data);
  return found != blocks_.end() && found->second.device == device &&
         Key(data) + bytes <= found->first + found->second.bytes;
}

bool Memory::Owner(const void* data, int* device) const {
  const auto found = Find(data);
  if (found == blocks_.end()) return false;
  *device = found->second.device;
  return true;
}

long Memory::Count(bool pinned) const {
  long count = 0;
  for (const auto& [key, block] : blocks_) count += (block.device == kPinned) == pinned;
  return count;
}

}  // namespace hvdlite::fake_gpu
