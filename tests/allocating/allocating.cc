// A library that allocates as torch's libc10 does: what csrc/pool/slots.h rewrites. Built in
// several ways (CMakeLists.txt).
#include <malloc.h>

#include <cstddef>
#include <cstdlib>

namespace {

thread_local int inside = -1;

}  // namespace

extern "C" {

void* allocating_allocate(size_t alignment, size_t bytes) {
  void* block = nullptr;
  return posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
}
void* allocating_aligned(size_t alignment, size_t bytes) {
  return aligned_alloc(alignment, bytes);
}
void* allocating_resize(void* block, size_t bytes) {
  return realloc(block, bytes);
}
size_t allocating_size(void* block) {
  return malloc_usable_size(block);
}
void allocating_free(void* block) {
  free(block);
}
void allocating_enter(int pass) {
  inside = pass;
}
int allocating_inside() {
  return inside;
}
}
