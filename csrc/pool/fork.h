// What happens to the pool in a fork: the child gets copies of the allocated blocks at the same
// addresses, and shares no memory with the ranks. For pthread_atfork, or handlers of its caller's.
//
// The parent waits until the child has made its copies: they are of the moment of the fork. The
// wait ends when the child dies, and after kLongestCopy. Nothing is done while no block is
// allocated.
#pragma once

namespace hvdlite::pool {

void BeforeFork();
void AfterForkInParent();
void AfterForkInChild();

}  // namespace hvdlite::pool
