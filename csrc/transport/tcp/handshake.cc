#include "transport/tcp/handshake.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/tcp/socket.h"

namespace hvdlite::transport::tcp {
namespace {

constexpr std::string_view kMagic = "hvdlite1";
constexpr std::string_view kServerLabel = "hvdlite server";
constexpr std::string_view kClientLabel = "hvdlite client";

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

Status ParseSecret(std::string_view hex, Secret* secret) {
  bool good = hex.size() == 2 * secret->size();
  for (size_t i = 0; good && i < secret->size(); ++i) {
    const int high = HexDigit(hex[2 * i]);
    const int low = HexDigit(hex[2 * i + 1]);
    good = high >= 0 && low >= 0;
    if (good) (*secret)[i] = static_cast<uint8_t>(high * 16 + low);
  }
  if (good) return Status::Ok();
  return Status::InvalidArgument(
      "the job's secret has to be 64 hexadecimal digits, but this is something else (" +
      std::to_string(hex.size()) + " characters)");
}

void Handshake::Send(const void* data, size_t bytes) {
  std::memcpy(out_.data() + out_bytes_, data, bytes);
  out_bytes_ += bytes;
}

Digest Handshake::Proof(std::string_view label, const Nonce& client, const Nonce& server) const {
  std::string message(label);
  message.push_back(static_cast<char>(purpose_));
  message.append(client.begin(), client.end());
  message.append(server.begin(), server.end());
  return HmacSha256({reinterpret_cast<const char*>(secret_.data()), secret_.size()}, message);
}

short Handshake::wants() const {
  return sent_ < out_bytes_ ? POLLOUT : POLLIN;
}

Handshake::Progress Handshake::Advance(int fd) {
  if (progress_ != Progress::kPending) return progress_;
  status_ = Move(fd);
  if (!status_.ok()) progress_ = Progress::kFailed;
  return progress_;
}

// Bounded: there are three turns, each of at most 72 bytes in each direction.
Status Handshake::Move(int fd) {
  while (true) {
    while (sent_ < out_bytes_) {
      const ssize_t n =
          send(fd, out_.data() + sent_, out_bytes_ - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        return Status::FromErrno("cannot send the handshake to " + who_, errno);
      }
      if (n < 0) break;
      sent_ += static_cast<size_t>(n);
    }
    while (sent_ == out_bytes_ && received_ < in_bytes_) {
      const ssize_t n = recv(fd, in_.data() + received_, in_bytes_ - received_, MSG_DONTWAIT);
      if (n < 0 && errno == EINTR) continue;
      if (n == 0 || (n < 0 && errno == ECONNRESET)) {
        return Status::Io(who_ +
                          " closed the connection during the handshake: it may belong to another "
                          "job (with another "
                          "secret) or not be hvdlite at all");
      }
      if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        return Status::FromErrno("cannot read the handshake of " + who_, errno);
      }
      if (n < 0) break;
      received_ += static_cast<size_t>(n);
      // The first bytes that either side reads are the magic. A browser or a port scanner is
      // disconnected at its first wrong byte.
      if (turn_ == 1 &&
          std::memcmp(in_.data(), kMagic.data(), std::min(received_, kMagic.size())) != 0) {
        return Status::Io(who_ + " does not speak hvdlite's protocol, version 1");
      }
    }
    if (sent_ < out_bytes_ || received_ < in_bytes_) {
      if (!deadline_.Passed()) return Status::Ok();
      return Status::Timeout(who_ + " did not finish the handshake in time: it stopped at byte " +
                             std::to_string(received_) + " of " + std::to_string(in_bytes_) +
                             " of step " + std::to_string(turn_));
    }
    out_bytes_ = sent_ = in_bytes_ = received_ = 0;
    HVDLITE_RETURN_IF_ERROR(Turn(turn_++));
    if (out_bytes_ == 0 && in_bytes_ == 0) {
      progress_ = Progress::kDone;
      return Status::Ok();
    }
  }
}

ServerHandshake::ServerHandshake(const Secret& secret, Purpose purpose, Deadline deadline,
                                 std::string who)
    : Handshake(secret, purpose, Deadline::After(deadline.Left(kHandshakeSpan)), std::move(who)) {}

Status ServerHandshake::Turn(int turn) {
  if (turn == 0) {
    Expect(kHelloBytes);
    return Status::Ok();
  }
  if (turn == 1) {
    if (in_[kMagic.size()] != static_cast<uint8_t>(purpose_)) {
      return Status::Io(who_ + " wants a connection for purpose " +
                        std::to_string(in_[kMagic.size()]) + ", this port serves purpose " +
                        std::to_string(static_cast<int>(purpose_)) + " (0: store, 1: link)");
    }
    std::copy_n(in_.data() + kMagic.size() + 1, client_nonce_.size(), client_nonce_.data());
    HVDLITE_RETURN_IF_ERROR(RandomBytes(server_nonce_.data(), server_nonce_.size()));
    Send(kMagic.data(), kMagic.size());
    Send(server_nonce_.data(), server_nonce_.size());
    const Digest proof = Proof(kServerLabel, client_nonce_, server_nonce_);
    Send(proof.data(), proof.size());
    Expect(kProofBytes);
    return Status::Ok();
  }
  if (turn == 2) {
    const Digest proof = Proof(kClientLabel, client_nonce_, server_nonce_);
    if (EqualInConstantTime(proof.data(), in_.data(), proof.size())) return Status::Ok();
    return Status::Io(who_ + " does not know this job's secret");
  }
  return Status::Internal("the server's handshake has only three turns");
}

ClientHandshake::ClientHandshake(const Secret& secret, Purpose purpose, Deadline deadline,
                                 std::string who)
    : Handshake(secret, purpose, deadline, std::move(who)) {}

Status ClientHandshake::Turn(int turn) {
  if (turn == 0) {
    HVDLITE_RETURN_IF_ERROR(RandomBytes(client_nonce_.data(), client_nonce_.size()));
    const auto purpose = static_cast<uint8_t>(purpose_);
    Send(kMagic.data(), kMagic.size());
    Send(&purpose, 1);
    Send(client_nonce_.data(), client_nonce_.size());
    Expect(kAnswerBytes);
    return Status::Ok();
  }
  if (turn == 1) {
    Nonce server_nonce;
    std::copy_n(in_.data() + kMagic.size(), server_nonce.size(), server_nonce.data());
    const Digest theirs = Proof(kServerLabel, client_nonce_, server_nonce);
    if (!EqualInConstantTime(theirs.data(), in_.data() + kMagic.size() + server_nonce.size(),
                             theirs.size())) {
      return Status::Io(who_ +
                        " does not know this job's secret: another job may be listening there");
    }
    const Digest mine = Proof(kClientLabel, client_nonce_, server_nonce);
    Send(mine.data(), mine.size());
    return Status::Ok();
  }
  return Status::Ok();
}

Status WaitHandshake(int fd, Handshake* handshake) {
  Handshake::Progress progress;
  while ((progress = handshake->Advance(fd)) == Handshake::Progress::kPending) {
    bool ready = false;  // at the deadline Advance() itself fails, and says where the peer stopped
    HVDLITE_RETURN_IF_ERROR(WaitFor(fd, handshake->wants(), handshake->deadline(), &ready));
  }
  return handshake->status();
}

}  // namespace hvdlite::transport::tcp
