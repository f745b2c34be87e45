#include "pool/fork.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.h"
#include "pool/pool.h"

namespace hvdlite::pool {
namespace {

constexpr Nanos kLongestCopy = 30 * kSecond;

// Of the fork that this thread is in; the child has the thread's copy.
struct Copying {
  Segment* segment = nullptr;
  int done[2] = {-1, -1};  // a pipe: the child writes a byte
};

Copying& Mine() {
  thread_local Copying copying;
  return copying;
}

void Close(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

}  // namespace

void BeforeFork() {
  Copying& mine = Mine();
  mine = Copying();
  Segment* const segment = Pool::Process().current();
  // The blocks of a retired segment are private already.
  if (segment == nullptr || Pool::Process().disowned() || segment->retired()) return;
  if (segment->live() == 0) return;
  mine.segment = segment;
  if (pipe2(mine.done, O_CLOEXEC) != 0) mine.done[0] = mine.done[1] = -1;
}

void AfterForkInParent() {
  Copying& mine = Mine();
  if (mine.segment == nullptr) return;
  Close(&mine.done[1]);
  const Deadline deadline = Deadline::After(kLongestCopy);
  pollfd told = {mine.done[0], POLLIN, 0};
  while (mine.done[0] >= 0 && poll(&told, 1, deadline.LeftMillis(1000)) <= 0) {
    if (deadline.Passed()) break;
  }
  Close(&mine.done[0]);
  mine = Copying();
}

void AfterForkInChild() {
  Copying& mine = Mine();
  Pool::Process().Disown();
  if (mine.segment == nullptr) return;
  mine.segment->CopyInChild();
  const char done = 1;
  [[maybe_unused]] const ssize_t written =
      mine.done[1] < 0 ? 0 : write(mine.done[1], &done, sizeof(done));
  Close(&mine.done[0]);
  Close(&mine.done[1]);
  mine = Copying();
}

}  // namespace hvdlite::pool
