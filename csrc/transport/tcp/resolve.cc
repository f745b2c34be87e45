// Converts names to addresses and back (declared in socket.h).
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "base/mutex.h"
#include "base/thread.h"
#include "transport/tcp/socket.h"

namespace hvdlite::transport::tcp {
namespace {

struct Lookup {
  int error = 0;         // of getaddrinfo
  int system_error = 0;  // errno when error is EAI_SYSTEM
  std::vector<SocketAddress> addresses;
};

Lookup LookUp(const Endpoint& endpoint, int flags) {
  Lookup result;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  result.error =
      getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  result.system_error = errno;
  for (const addrinfo* entry = list; result.error == 0 && entry != nullptr;
       entry = entry->ai_next) {
    if (entry->ai_addrlen > sizeof(sockaddr_storage)) continue;
    SocketAddress address;
    std::memcpy(&address.storage, entry->ai_addr, entry->ai_addrlen);
    address.length = entry->ai_addrlen;
    result.addresses.push_back(address);
  }
  if (list != nullptr) freeaddrinfo(list);
  return result;
}

// Shared with the look-up thread, which may outlive the caller.
struct Answer {
  Mutex mutex;
  CondVar arrived;
  bool done GUARDED_BY(mutex) = false;
  Lookup lookup GUARDED_BY(mutex);
};

Status Explain(const std::string& host, const Lookup& lookup) {
  const std::string what = "cannot find the address of '" + host + "'";
  if (lookup.error == EAI_SYSTEM) return Status::FromErrno(what, lookup.system_error);
  return Status::Io(what + ": " + (lookup.error != 0 ? gai_strerror(lookup.error) : "it has none") +
                    " (see /etc/hosts and /etc/resolv.conf)");
}

}  // namespace

Status Resolve(const Endpoint& endpoint, Deadline deadline, std::vector<SocketAddress>* addresses) {
  addresses->clear();
  if (endpoint.host.empty())
    return Status::InvalidArgument("a host name is missing before port " + endpoint.ToString());
  Lookup lookup = LookUp(endpoint, AI_NUMERICHOST);
  if (lookup.error != 0) {
    const auto answer = std::make_shared<Answer>();
    try {
      std::thread([answer, endpoint] {
        NameThisThread("hvd-lookup");
        Lookup found = LookUp(endpoint, 0);
        MutexLock lock(answer->mutex);
        answer->lookup = std::move(found);
        answer->done = true;
        answer->arrived.NotifyAll();
      }).detach();
      // The system's limit on threads is reached. This layer reports errors by Status only.
    } catch (const std::system_error& error) {
      return Status::FromErrno("cannot look up '" + endpoint.host + "' in a thread",
                               error.code().value());
    }
    MutexLock lock(answer->mutex);
    while (!answer->done) {
      if (deadline.Passed()) {
        return Status::Timeout("cannot find the address of '" + endpoint.host +
                               "': no answer in time from the name service (see /etc/resolv.conf)");
      }
      answer->arrived.WaitFor(answer->mutex, deadline.Left(kSecond));
    }
    lookup = std::move(answer->lookup);
  }
  if (lookup.error != 0 || lookup.addresses.empty()) return Explain(endpoint.host, lookup);
  *addresses = std::move(lookup.addresses);
  return Status::Ok();
}

Endpoint SocketAddress::ToEndpoint() const {
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  // Numeric both ways, so there is no look-up and no waiting. IPv6 link-local addresses include
  // their %scope.
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&storage), length, host, sizeof(host), port,
                  sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return Endpoint{"an unknown address", 0};
  }
  return Endpoint{host, static_cast<uint16_t>(std::stoi(port))};
}

}  // namespace hvdlite::transport::tcp
