#include "pool/fork.h"

#include "base/clock.h"
#include "pool/pool.h"

namespace hvdlite::pool {
namespace {

// A pass takes milliseconds. One whose peers are stopped ends when the job gives them up; a child
// that needs gradients of that moment does not exist.
constexpr Nanos kLongestPass = 5 * kSecond;

// Of the fork that this thread is in; the child has the thread's copy.
thread_local Segment* forking = nullptr;

void AfterFork() {
  if (forking != nullptr) forking->AfterFork();
  forking = nullptr;
}

}  // namespace

void BeforeFork() {
  Pool& pool = Pool::Process();
  forking = pool.disowned() ? nullptr : pool.current();
  if (forking != nullptr) forking->BeforeFork(kLongestPass);
}

void AfterForkInParent() {
  AfterFork();
}

void AfterForkInChild() {
  AfterFork();
  Pool::Process().Disown();
}

}  // namespace hvdlite::pool
