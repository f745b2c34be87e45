// Memory: the blocks that the fake driver has handed out, on devices and pinned.
//
// A block ends at a page that nobody may touch, so that writing past it is seen at once; a freed
// block stays unreadable for a while before its addresses are used again. Device memory can be
// touched by the threads that may (Touch). Thread-safety: none; the machine's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

namespace hvdlite::fake_gpu {

class Memory {
 public:
  static constexpr int kPinned = -1;  // instead of a device

  // Null where the device has not as much left.
  void* New(size_t bytes, int device, size_t limit, bool protect);
  // From now on no new use of it is right. False: there is no such block, or it has been freed.
  bool Retire(const void* data, int device);
  // After Retire.
  void Release(const void* data);
  // Whether all of it is in one block that has not been released.
  bool Holds(const void* data, size_t bytes, int device) const;
  // kPinned or a device; false for what is in no block.
  bool Owner(const void* data, int* device) const;
  size_t SizeOf(const void* data) const { return blocks_.at(Key(data)).bytes; }
  long Count(bool pinned) const;

  // Whether the calling thread may touch device memory.
  static void Touch(bool allowed);

 private:
  struct Block {
    size_t bytes;
    int device;
    char* mapping;
    size_t mapped;
    bool retired = false;
  };
  struct Grave {
    char* mapping;
    size_t mapped;
  };
  using Map = std::map<uintptr_t, Block>;

  static uintptr_t Key(const void* data) { return reinterpret_cast<uintptr_t>(data); }
  Map::const_iterator Find(const void* data) const;

  Map blocks_;
  std::map<int, size_t> used_;
  std::deque<Grave> graves_;
};

}  // namespace hvdlite::fake_gpu
