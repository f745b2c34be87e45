#include "transport/shm/descriptors.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hvdlite::transport::shm {

Status WaitReady(std::vector<pollfd>* fds, const Until& until, const std::string& what) {
  for (;;) {
    HVDLITE_RETURN_IF_ERROR(until.Look());
    const int rc = poll(fds->data(), fds->size(), until.SliceMillis(1000));
    if (rc > 0) return Status::Ok();
    if (rc < 0 && errno != EINTR) return Status::FromErrno(what, errno);
    if (until.deadline.Passed()) return Status::Timeout(what + ": no answer in time");
  }
}

Status SendWithFds(int socket, const void* data, size_t bytes, const std::vector<int>& fds) {
  iovec part{const_cast<void*>(data), bytes};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * std::max<size_t>(fds.size(), 1)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
    memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
  }
  const ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(bytes)) return Status::Ok();
  return Status::FromErrno("cannot pass descriptors to a rank of this host",
                           sent < 0 ? errno : EMSGSIZE);
}

Status ReceiveWithFds(int socket, void* data, size_t bytes, size_t most_fds, const Until& until,
                      std::vector<int>* fds) {
  std::vector<pollfd> readable = {{socket, POLLIN, 0}};
  HVDLITE_RETURN_IF_ERROR(WaitReady(&readable, until, "waiting for a rank of this host"));
  iovec part{data, bytes};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * std::max<size_t>(most_fds, 1)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got > 0) {
    for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
      if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd;
        memcpy(&fd, CMSG_DATA(h) + i * sizeof(int), sizeof(int));
        fds->push_back(fd);
      }
    }
  }
  if (got == static_cast<ssize_t>(bytes) && (message.msg_flags & MSG_CTRUNC) == 0)
    return Status::Ok();
  if (got < 0) return Status::FromErrno("cannot receive from a rank of this host", errno);
  return Status::Io("a rank of this host closed its connection during start-up");
}

}  // namespace hvdlite::transport::shm
