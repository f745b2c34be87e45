// Sets the name of a thread and the core it runs on.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <charconv>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hvdlite {

// Names a thread so that `top -H`, gdb and perf show whose it is (at most 15 characters).
inline void NameThread(pthread_t thread, const std::string& name) {
  pthread_setname_np(thread, name.substr(0, 15).c_str());
}

inline void NameThisThread(const std::string& name) {
  NameThread(pthread_self(), name);
}

// The core of a local rank in a list such as "0,2,4,6". DECIDES. `core` is -1 when the list is
// empty.
inline Status CoreOf(std::string_view list, int local_rank, int local_size, int* core) {
  *core = -1;
  if (list.empty()) return Status::Ok();
  int entries = 0;
  int mine = -1;
  for (std::string_view rest = list; entries == 0 || rest.data() != nullptr; ++entries) {
    const size_t comma = rest.find(',');
    std::string_view entry = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    int number = -1;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), number);
    if (error != std::errc() || end != entry.data() + entry.size() || number < 0) {
      return Status::InvalidArgument("HVDLITE_THREAD_AFFINITY='" + std::string(list) + "': '" +
                                     std::string(entry) + "' is not the number of a core");
    }
    if (entries == local_rank) mine = number;
  }
  if (entries == local_size) {
    *core = mine;
    return Status::Ok();
  }
  return Status::InvalidArgument("HVDLITE_THREAD_AFFINITY='" + std::string(list) + "' has " +
                                 std::to_string(entries) + " cores, but this host has " +
                                 std::to_string(local_size) + " ranks: give one for each");
}

// Restricts the thread to this core.
inline Status PinThread(pthread_t thread, int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (core < CPU_SETSIZE) CPU_SET(core, &cores);
  const int error = pthread_setaffinity_np(thread, sizeof(cores), &cores);
  if (error == 0) return Status::Ok();
  return Status::FromErrno(
      "cannot run on core " + std::to_string(core) + " (HVDLITE_THREAD_AFFINITY)", error);
}

}  // namespace hvdlite
