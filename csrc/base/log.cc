#include "base/log.h"

#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>

namespace hvdlite {
namespace {

const char* LevelName(LogLevel level) {
  static constexpr const char* names[] = {"trace", "debug", "info", "warning", "error", "fatal"};
  return names[static_cast<int>(level)];
}

}  // namespace

void Logger::Write(LogLevel level, const std::string& text) const {
  if (!enabled(level)) return;
  std::string line = "[";
  if (with_time_) {
    timeval now{};
    gettimeofday(&now, nullptr);
    tm local{};
    localtime_r(&now.tv_sec, &local);
    char stamp[40];
    const size_t n = strftime(stamp, sizeof(stamp), "%F %T", &local);
    snprintf(stamp + n, sizeof(stamp) - n, ".%03d ", static_cast<int>(now.tv_usec / 1000));
    line += stamp;
  }
  line += "hvdlite " + std::to_string(rank_) + "/" + std::to_string(size_) + "] " +
          LevelName(level) + ": " + text + "\n";
  // There is nowhere to report a log line that cannot be written.
  [[maybe_unused]] const ssize_t written = ::write(fd_, line.data(), line.size());
}

}  // namespace hvdlite
