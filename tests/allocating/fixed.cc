// A program that takes the address of free() and is linked at fixed addresses. It then has an entry
// of its own for free(), which dlsym() finds. Says on stderr what is wrong.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

#include "pool/pool.h"
#include "pool/slots.h"

int main(int count, char** arguments) {
  if (count != 2) return 2;
  void (*volatile const entry)(void*) = std::free;
  entry(malloc(1));
  void* const library = dlopen(arguments[1], RTLD_LAZY);
  if (library == nullptr) return 3;
  const auto allocate =
      reinterpret_cast<void* (*)(size_t, size_t)>(dlsym(library, "allocating_allocate"));
  const auto release = reinterpret_cast<void (*)(void*)>(dlsym(library, "allocating_free"));
  const auto enter = reinterpret_cast<void (*)(int)>(dlsym(library, "allocating_enter"));
  release(allocate(64, 100));  // the loader looks the functions up

  if (dlsym(RTLD_DEFAULT, "free") != reinterpret_cast<void*>(entry)) {
    std::fputs("dlsym() does not find this program's entry\n", stderr);
    return 4;
  }
  using hvdlite::pool::Pool;
  const hvdlite::Status patched =
      hvdlite::pool::Patch({arguments[1], "allocating_allocate", "allocating_inside", -1});
  if (!patched.ok()) {
    std::fprintf(stderr, "%s\n", patched.ToString().c_str());
    return 5;
  }
  constexpr size_t kSize = 50'000;
  hvdlite::pool::Segment* segment = nullptr;
  if (!Pool::Process().Open(0, &segment).ok()) return 6;
  Pool::Process().Expect(kSize, 1);
  Pool::Process().Arm(true);
  enter(1);
  void* const gradient = allocate(64, kSize);
  enter(-1);
  if (Pool::Process().OffsetOf(gradient) < 0) return 7;
  release(gradient);
  release(allocate(64, 100));
  return Pool::Process().stats().live == 0 ? 0 : 8;
}
