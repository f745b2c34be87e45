// A peer that does not know the secret never gets through a handshake, whatever it sends and
// however its bytes are cut.
//
// The first byte chooses the side that the fuzzer talks to: 1 a server, otherwise a client; 2 for a
// link, otherwise for the store; 4 after a good first step, so that the fuzzer reaches the proof as
// well; 8 in generation 1 and not 0, which a good first step does not name. The second byte is the
// size of the pieces.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "transport/tcp/handshake.h"
#include "transport/tcp/socket.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hvdlite;
  using namespace hvdlite::transport::tcp;
  if (size < 2) return 0;
  Secret secret;
  secret.fill(7);
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) std::abort();
  const Fd ours(fds[0]);
  const Fd theirs(fds[1]);
  const bool as_server = (data[0] & 1) != 0;
  const Purpose purpose = (data[0] & 2) != 0 ? Purpose::kLink : Purpose::kStore;
  const bool good_start = (data[0] & 4) != 0;
  const uint32_t generation = (data[0] & 8) != 0 ? 1 : 0;
  const size_t piece = 1 + data[1] % 80;

  std::unique_ptr<Handshake> handshake;
  if (as_server) {
    handshake =
        std::make_unique<ServerHandshake>(secret, purpose, Deadline::Never(), "fuzzer", generation);
  } else {
    handshake =
        std::make_unique<ClientHandshake>(secret, purpose, Deadline::Never(), "fuzzer", generation);
  }
  if (good_start) {
    const std::string nonce(32, 'n');
    const std::string named(purpose == Purpose::kLink ? 4 : 0, '\0');
    const std::string start =
        as_server ? "hvdlite1" + std::string(1, static_cast<char>(purpose)) + nonce + named
                  : "hvdlite1" + nonce + named;
    if (send(theirs.get(), start.data(), start.size(), MSG_NOSIGNAL) < 0) std::abort();
  }
  auto progress = handshake->Advance(ours.get());
  size_t sent = 2;
  while (sent < size && progress == Handshake::Progress::kPending) {
    const size_t n = std::min(piece, size - sent);
    if (send(theirs.get(), data + sent, n, MSG_NOSIGNAL) < 0) std::abort();
    sent += n;
    progress = handshake->Advance(ours.get());
  }
  if (progress == Handshake::Progress::kPending) {
    shutdown(theirs.get(), SHUT_WR);
    progress = handshake->Advance(ours.get());
    if (progress == Handshake::Progress::kPending) progress = handshake->Advance(ours.get());
  }
  if (progress != Handshake::Progress::kFailed) std::abort();
  if (handshake->status().ok() || handshake->status().message().empty()) std::abort();
  return 0;
}
