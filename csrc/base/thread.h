// Names a thread so that `top -H`, gdb and perf show whose it is (at most 15 characters).
#pragma once

#include <pthread.h>

#include <string>

namespace hvdlite {

inline void NameThisThread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace hvdlite
