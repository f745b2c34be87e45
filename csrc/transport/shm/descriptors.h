// Descriptors that travel over a Unix socket, and how to wait for them.
#pragma once

#include <poll.h>

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/until.h"

namespace hvdlite::transport::shm {

// Descriptors per message; the kernel's limit is 253.
constexpr size_t kFdsPerMessage = 250;

// Waits until one of the sockets can be read.
Status WaitReady(std::vector<pollfd>* fds, const Until& until, const std::string& what);
// Sends one message of `bytes` with `fds` attached. It fits into the socket's buffer, so this never
// blocks.
Status SendWithFds(int socket, const void* data, size_t bytes, const std::vector<int>& fds);
// The caller owns the descriptors, also those that came with a failure.
Status ReceiveWithFds(int socket, void* data, size_t bytes, size_t most_fds, const Until& until,
                      std::vector<int>* fds);

}  // namespace hvdlite::transport::shm
