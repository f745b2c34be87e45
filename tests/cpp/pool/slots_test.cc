#include "pool/slots.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "pool/fork.h"
#include "pool/pool.h"
#include "testing/says.h"
#include "testing/watchdog.h"

namespace hvdlite::pool::slots_testing {
namespace {

constexpr size_t kSize = 50'000;
constexpr int kOutside = -1;

// A library of tests/allocating. Loaded for good, once patched.
class Allocating {
 public:
  explicit Allocating(const char* path) : path_(path), loaded_(dlopen(path, RTLD_LAZY)) {
    EXPECT_NE(loaded_, nullptr) << dlerror();
    Find("allocating_allocate", &allocate);
    Find("allocating_aligned", &aligned);
    Find("allocating_resize", &resize);
    Find("allocating_size", &size);
    Find("allocating_free", &free);
    Find("allocating_enter", &enter);
  }

  Status Patch() const {
    return hvdlite::pool::Patch({path_, "allocating_allocate", "allocating_inside", kOutside});
  }
  // Memory of a gradient's size, asked for in a backward pass.
  char* Gradient() const {
    enter(1);
    char* const block = static_cast<char*>(allocate(64, kSize));
    enter(kOutside);
    return block;
  }

  void* (*allocate)(size_t, size_t) = nullptr;
  void* (*aligned)(size_t, size_t) = nullptr;
  void* (*resize)(void*, size_t) = nullptr;
  size_t (*size)(void*) = nullptr;
  void (*free)(void*) = nullptr;
  void (*enter)(int) = nullptr;

 private:
  template <typename Function>
  void Find(const char* name, Function* function) const {
    *function = reinterpret_cast<Function>(dlsym(loaded_, name));
  }
  const std::string path_;
  void* const loaded_;
};

bool IsOurs(const void* block) {
  return Pool::Process().OffsetOf(block) >= 0;
}

class PoolSlots : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    Segment* segment = nullptr;
    ASSERT_TRUE(Pool::Process().Open(0, &segment).ok());
    Pool::Process().Expect(kSize, 4);
    Pool::Process().Arm(true);
  }
  void TearDown() override {
    Pool::Process().Arm(false);
    Pool::Process().Expect(kSize, -4);
    EXPECT_EQ(Pool::Process().stats().live, 0u);
  }
  const testing::Watchdog watchdog_{60};
};

TEST_P(PoolSlots, what_was_allocated_before_is_freed_after) {
  const Allocating library(GetParam());
  void* const before = library.allocate(64, kSize);
  const Status patched = library.Patch();
  ASSERT_TRUE(patched.ok()) << patched.ToString();
  EXPECT_FALSE(IsOurs(before));
  library.free(before);
}

TEST_P(PoolSlots, gradients_come_from_the_pool_and_go_back) {
  const Allocating library(GetParam());
  ASSERT_TRUE(library.Patch().ok());
  ASSERT_TRUE(library.Patch().ok()) << "again";
  char* const gradient = library.Gradient();
  EXPECT_TRUE(IsOurs(gradient));
  EXPECT_EQ(library.size(gradient), kSize);
  memset(gradient, 1, kSize);
  errno = 77;
  library.free(gradient);
  EXPECT_EQ(errno, 77);
  EXPECT_EQ(library.Gradient(), gradient) << "the block freed last";
  library.free(gradient);
}

TEST_P(PoolSlots, everything_else_comes_from_the_c_library) {
  const Allocating library(GetParam());
  ASSERT_TRUE(library.Patch().ok());
  std::vector<void*> others = {library.allocate(64, kSize)};  // outside a backward pass
  library.enter(1);
  others.push_back(library.allocate(64, kSize + 1));
  others.push_back(library.aligned(64, 64));
  library.enter(kOutside);
  for (void* block : others) {
    EXPECT_FALSE(IsOurs(block));
    EXPECT_GE(library.size(block), 64u);
    library.free(block);
  }
  library.free(nullptr);
}

TEST_P(PoolSlots, a_block_that_is_resized_leaves_the_pool) {
  const Allocating library(GetParam());
  ASSERT_TRUE(library.Patch().ok());
  for (const size_t bytes : {size_t{1000}, 2 * kSize}) {
    char* const gradient = library.Gradient();
    for (size_t i = 0; i < kSize; ++i) gradient[i] = static_cast<char>(i % 101);
    char* const moved = static_cast<char*>(library.resize(gradient, bytes));
    EXPECT_FALSE(IsOurs(moved));
    for (size_t i = 0; i < std::min(bytes, kSize); ++i)
      ASSERT_EQ(moved[i], static_cast<char>(i % 101));
    library.free(library.resize(moved, 3 * kSize));
    EXPECT_EQ(Pool::Process().stats().live, 0u);
  }
}

TEST_P(PoolSlots, a_gradient_may_be_freed_by_another_thread) {
  const Allocating library(GetParam());
  ASSERT_TRUE(library.Patch().ok());
  char* const gradient = library.Gradient();
  std::thread([&] { library.free(gradient); }).join();
}

TEST_P(PoolSlots, a_full_class_leaves_the_rest_to_the_c_library) {
  const Allocating library(GetParam());
  ASSERT_TRUE(library.Patch().ok());
  std::vector<char*> gradients;
  int ours = 0;
  for (int i = 0; i < 50; ++i) {
    gradients.push_back(library.Gradient());
    ours += IsOurs(gradients.back());
    memset(gradients.back(), i, kSize);
  }
  EXPECT_GT(ours, 0);
  EXPECT_LT(ours, 50);
  for (char* gradient : gradients) library.free(gradient);
}

// The C library asks the kernel for memory of this size, and the kernel may place it where the
// parent has the pool's file.
TEST_P(PoolSlots, a_forked_childs_own_memory_is_the_c_librarys) {
  const Allocating library(GetParam());
  ASSERT_TRUE(library.Patch().ok());
  constexpr size_t kLarge = size_t{256} << 20;
  BeforeFork();
  const pid_t pid = fork();
  if (pid == 0) {
    AfterForkInChild();
    const size_t before = mallinfo2().hblkhd;
    char* const block = static_cast<char*>(library.allocate(64, kLarge));
    block[0] = 1;
    char* const moved = static_cast<char*>(library.resize(block, 2 * kLarge));
    if (moved[0] != 1) _exit(1);
    if (library.size(moved) < 2 * kLarge) _exit(2);
    library.free(moved);
    _exit(mallinfo2().hblkhd == before ? 0 : 3);  // bytes that it has from the kernel
  }
  AfterForkInParent();
  int status = -1;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Linked, PoolSlots,
                         ::testing::Values(HVDLITE_ALLOCATING_lazy, HVDLITE_ALLOCATING_now,
                                           HVDLITE_ALLOCATING_plain));

TEST(PoolSlotsRefused, a_library_without_those_functions_is_left_alone) {
  ASSERT_NE(dlopen(HVDLITE_ALLOCATING_nothing, RTLD_LAZY), nullptr);
  const Status patched =
      Patch({HVDLITE_ALLOCATING_nothing, "allocating_allocate", "allocating_inside", -1});
  EXPECT_TRUE(FailsWith(patched, StatusCode::kUnsupported, "does not allocate"));
}

TEST(PoolSlotsRefused, a_missing_symbol_or_library_is_named) {
  ASSERT_NE(dlopen(HVDLITE_ALLOCATING_nothing, RTLD_LAZY), nullptr);
  const Status symbol = Patch({HVDLITE_ALLOCATING_nothing, "no_such", "allocating_inside", -1});
  EXPECT_TRUE(Says(symbol, "no_such"));
  const Status gate = Patch({HVDLITE_ALLOCATING_nothing, "allocating_allocate", "no_gate", -1});
  EXPECT_TRUE(Says(gate, "no_gate"));
  const Status library = Patch({"libno.so", "allocating_allocate", "allocating_inside", -1});
  EXPECT_TRUE(Says(library, "libno.so"));
}

#ifdef HVDLITE_ALLOCATING_FIXED
// tests/allocating/fixed.cc
TEST_P(PoolSlots, a_program_at_fixed_addresses_is_served_too) {
  const std::string command = std::string(HVDLITE_ALLOCATING_FIXED) + " " + GetParam();
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0) << command;
}
#endif

}  // namespace
}  // namespace hvdlite::pool::slots_testing
