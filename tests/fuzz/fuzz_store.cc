// Whatever the store's server replies, the client returns a status: never a crash, never memory for
// what has not come.
//
// The first byte chooses the question, the second whether the whole stream is the fuzzer's or only
// the payload of frames that are in sequence.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/bytes.h"
#include "rendezvous/tcp_store.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvdlite;              // NOLINT: a fuzz target is one function
  using namespace hvdlite::rendezvous;  // NOLINT
  if (size < 2) return 0;
  const uint8_t question = data[0];
  const bool raw = data[1] % 4 == 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 2,
                          std::min<size_t>(size - 2, 60000));
  std::string stream;
  if (raw) {
    stream = bytes;
  } else {
    AppendInteger(&stream, uint32_t{0});
    AppendInteger(&stream, static_cast<uint64_t>(bytes.size()));
    stream += bytes;
  }
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
  Fd server(fds[1]);
  if (send(server.get(), stream.data(), stream.size(), MSG_NOSIGNAL) < 0) std::abort();
  shutdown(server.get(), SHUT_WR);
  const std::unique_ptr<TcpStore> store = TcpStore::Adopt(Fd(fds[0]), "the fuzzer");
  const Deadline deadline = Deadline::After(kSecond);
  Status status;
  switch (question % 5) {
    case 0: status = store->Set("key", "value"); break;
    case 1: {
      std::string value;
      status = store->Get("key", deadline, &value);
      if (status.ok() && value.size() > bytes.size()) std::abort();
      break;
    }
    case 2: {
      std::vector<std::string> values;
      const int n = question / 5;
      status = store->Collect("key", n, deadline, &values);
      if (values.size() != (status.ok() ? static_cast<size_t>(n) : 0)) std::abort();
      break;
    }
    case 3: {
      int64_t sum = 0;
      status = store->Add("key", 1, &sum);
      break;
    }
    default: status = store->Delete("key"); break;
  }
  if (!status.ok() && status.message().empty()) std::abort();
  // The stream is at its end: the next question is refused in any case.
  if (!raw && store->Set("key", "value").ok()) std::abort();
  return 0;
}
