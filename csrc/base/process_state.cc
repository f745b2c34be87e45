#include "base/process_state.h"

#include <cstdio>

namespace hvdlite {

ProcessState StateOf(int64_t pid) {
  FILE* const file =
      pid > 0 ? fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re") : nullptr;
  if (file == nullptr) return ProcessState::kUnknown;
  char text[512];
  const size_t length = fread(text, 1, sizeof(text), file);
  fclose(file);
  return ParseState(std::string(text, length));
}

ProcessState ParseState(const std::string& stat) {
  // PID (COMMAND) STATE ...
  const size_t command_end = stat.rfind(") ");
  if (command_end == std::string::npos || command_end + 2 >= stat.size())
    return ProcessState::kUnknown;
  switch (stat[command_end + 2]) {
    case 'R':
    case 'S':
    case 'I': return ProcessState::kWorks;
    case 'T': return ProcessState::kStopped;
    case 't': return ProcessState::kTraced;
    case 'D': return ProcessState::kInKernel;
    case 'Z':
    case 'X': return ProcessState::kEnded;
    default: return ProcessState::kUnknown;
  }
}

std::string WhyItRests(ProcessState state, int64_t pid) {
  const std::string process = "its process " + std::to_string(pid);
  switch (state) {
    case ProcessState::kStopped:
      return process + " is stopped (SIGSTOP); `kill -CONT " + std::to_string(pid) +
             "` lets it go on";
    case ProcessState::kTraced: return process + " is stopped by a debugger";
    case ProcessState::kInKernel:
      return process + " waits in the kernel, for a disk or a network file system";
    case ProcessState::kEnded: return process + " has ended";
    case ProcessState::kWorks:
    case ProcessState::kUnknown: return "";
  }
  return "";
}

}  // namespace hvdlite
