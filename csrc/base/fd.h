// Fd: owns a file descriptor and closes it. Move-only. WriteAll: writes to one.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace hvdlite {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.Release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  ~Fd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void Reset(int fd = -1) {
    // close(2) must not be repeated on EINTR: Linux has released the descriptor by then.
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Writes all bytes at `offset` of the file. False: some are not written, and errno says why.
inline bool WriteAll(int fd, const char* data, size_t bytes, size_t offset) {
  while (bytes > 0) {
    const ssize_t written = pwrite(fd, data, bytes, static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    offset += static_cast<size_t>(written);
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

}  // namespace hvdlite
