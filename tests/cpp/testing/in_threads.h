// The same function in several threads at once.
#pragma once

#include <thread>
#include <vector>

namespace hvdlite {

// Calls body(0) to body(count - 1), each in a thread of its own; returns when all have returned.
template <typename Index, typename Body>
void InThreads(Index count, const Body& body) {
  std::vector<std::thread> threads;
  for (Index i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace hvdlite
