// ProcessState: what the kernel says a process of this machine does.
#pragma once

#include <cstdint>
#include <string>

namespace hvdlite {

enum class ProcessState : uint8_t {
  kUnknown,   // there is no such process, or /proc does not say
  kWorks,     // it runs, or sleeps until an event comes
  kStopped,   // by SIGSTOP or by a terminal
  kTraced,    // by a debugger
  kInKernel,  // in a wait that no signal ends: for a disk or a network file system
  kEnded,
};

ProcessState StateOf(int64_t pid);
// The state of a process whose /proc/PID/stat reads so. The command in it may be any text. Pure.
ProcessState ParseState(const std::string& stat);
// Why a process in that state does nothing: "its process 4711 is stopped (SIGSTOP); `kill -CONT
// 4711` lets it go on". Empty if the state does not say.
std::string WhyItRests(ProcessState state, int64_t pid);

}  // namespace hvdlite
