// Log lines of one engine, prefixed with its rank: "[2026-11-21 06:12:03.123 1/4] warning: text".
//
// A Logger belongs to an engine (ranks may be threads of one process), so it is passed, not global.
// Thread-safe: each line is one write(2).
#pragma once

#include <cstdint>
#include <string>

namespace hvdlite {

enum class LogLevel : uint8_t {
  kTrace = 0,
  kDebug = 1,
  kInfo = 2,
  kWarning = 3,
  kError = 4,
  kFatal = 5
};

class Logger {
 public:
  Logger(LogLevel level, bool with_time, int rank, int size, int fd = 2)
      : level_(level), with_time_(with_time), rank_(rank), size_(size), fd_(fd) {}

  bool enabled(LogLevel level) const { return level >= level_; }
  void Write(LogLevel level, const std::string& text) const;
  void Debug(const std::string& text) const { Write(LogLevel::kDebug, text); }
  void Info(const std::string& text) const { Write(LogLevel::kInfo, text); }
  void Warning(const std::string& text) const { Write(LogLevel::kWarning, text); }
  void Error(const std::string& text) const { Write(LogLevel::kError, text); }

 private:
  const LogLevel level_;
  const bool with_time_;
  const int rank_;
  const int size_;
  const int fd_;
};

}  // namespace hvdlite
