// What happens to the pool in a fork: allocated blocks become private memory, which the child
// inherits as any other, and the child shares no memory with the ranks. For pthread_atfork, or
// handlers of its caller's.
//
// The fork waits until other ranks are through with this one's gradients, but not for ever.
#pragma once

namespace hvdlite::pool {

void BeforeFork();
void AfterForkInParent();
void AfterForkInChild();

}  // namespace hvdlite::pool
